"""How a declaration is understood."""

from __future__ import annotations

import pytest

from barnabas.wire.messages.fetch import FetchRequest, ReplicaState
from barnabas.wire.schema import FOREVER, Int32, Int64, Message, Record, Records, Struct, field, since, version_range
from barnabas.wire.shapes import Kind, fields_of
from barnabas.wire.uuids import ZERO_UUID, Uuid
from tests.support.random_messages import message_classes


class Page(Struct):
    number: Int32 = 0


class Book(Message, key=7, versions="2-5", flexible="4+"):
    title: str = ""
    subtitle: str | None = field("3+", nullable="4+", default="")
    isbn: Uuid = ZERO_UUID
    cover: Page | None = None
    pages: list[Page] = field(default_factory=list)
    weights: list[Int64] | None = since(5, default=None, ignorable=True)
    scan: Records | None = field("3-4", default=None)
    rating: Int32 = since(4, default=-1, tag=2)
    plain_text: str = field(default="", flexible="none")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", (4, 4)), ("4-7", (4, 7)), ("4+", (4, FOREVER)), ("none", (FOREVER, -1)), ("0-10", (0, 10))],
)
def test_version_ranges(text: str, expected: tuple[int, int]) -> None:
    assert version_range(text) == expected


def test_fields_are_read_in_order_with_their_kinds_and_versions() -> None:
    fields = {item.name: item for item in fields_of(Book)}
    assert list(fields) == [
        "title",
        "subtitle",
        "isbn",
        "cover",
        "pages",
        "weights",
        "scan",
        "rating",
        "plain_text",
    ]
    assert [item.kind for item in fields.values()] == [
        Kind.STRING,
        Kind.STRING,
        Kind.UUID,
        Kind.STRUCT,
        Kind.STRUCT,
        Kind.INT64,
        Kind.RECORDS,
        Kind.INT32,
        Kind.STRING,
    ]
    assert [name for name, item in fields.items() if item.is_array] == ["pages", "weights"]
    assert [name for name, item in fields.items() if item.in_version(3)] == [
        "title",
        "subtitle",
        "isbn",
        "cover",
        "pages",
        "scan",
        "plain_text",
    ]
    assert [fields["subtitle"].is_nullable(version) for version in (3, 4)] == [False, True]
    assert fields["cover"].is_nullable(2)
    assert not fields["title"].is_nullable(2)
    assert [fields["rating"].is_tagged(version) for version in (3, 4)] == [False, True]
    assert fields["weights"].ignorable
    assert not fields["plain_text"].is_flexible(5)


def test_an_element_of_an_array_is_neither_null_nor_tagged() -> None:
    weights = next(item for item in fields_of(Book) if item.name == "weights")
    element = weights.element()
    assert not element.is_array
    assert not element.is_nullable(5)
    assert not element.is_tagged(5)


def test_a_message_knows_its_versions() -> None:
    assert (Book.api_key, Book.valid_versions, Book.flexible_since) == (7, (2, 5), 4)
    assert [Book.is_flexible(version) for version in (3, 4)] == [False, True]


def test_a_constructor_takes_keywords_and_knows_the_defaults() -> None:
    book = Book(title="Amerika", pages=[Page(number=1)])
    assert (book.title, book.subtitle, book.isbn, book.cover, book.rating) == ("Amerika", "", ZERO_UUID, None, -1)
    assert book.pages == [Page(number=1)]
    with pytest.raises(TypeError):
        Book("Amerika")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Book(author="Kafka")  # type: ignore[call-arg]


def test_structs_are_equal_by_their_fields_and_shown_with_them() -> None:
    assert Page(number=1) == Page(number=1) != Page(number=2)
    assert Page() != ReplicaState()
    assert repr(Page(number=3)) == "Page(number=3)"
    with pytest.raises(TypeError):
        hash(Page())


def test_a_default_struct_is_complete() -> None:
    assert FetchRequest().replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)


@pytest.mark.parametrize("cls", message_classes(), ids=lambda cls: cls.__name__)
def test_a_declaration_is_consistent(cls: type[Message]) -> None:
    low, high = cls.valid_versions
    assert 0 <= low <= high
    for struct in structs_of(cls):
        for version in range(low, high + 1):
            tags = [item.tag for item in fields_of(struct) if item.in_version(version) and item.is_tagged(version)]
            assert len(tags) == len(set(tags)), "two fields have the same tag"
            assert cls.is_flexible(version) or not tags, "a tag in a version that has none"
        for item in fields_of(struct):
            default = item.default_factory() if item.default_factory else item.default
            assert default is not None or item.nullable[0] <= high, f"{item.name} is null by default, and never may be"
            assert item.nullable[0] >= item.versions[0], f"{item.name} is nullable before it exists"
            if item.struct is not None and not item.is_array and default is not None:
                assert default == item.struct(), f"{item.name}: codecs set a struct's own defaults, not other ones"


def structs_of(cls: type[Struct]) -> list[type[Struct]]:
    found: list[type[Struct]] = [cls]
    for struct in found:
        found.extend(item.struct for item in fields_of(struct) if item.struct and item.struct not in found)
    return found


def test_records_of_one_kind_have_keys_of_their_own() -> None:
    seen: dict[tuple[str, str, int], str] = {}
    for cls in message_classes():
        if issubclass(cls, Record) and cls.api_key >= 0:
            place = cls.__module__.rpartition(".")[2]
            topic = "groups" if place.endswith("groups") else place
            side = "key" if cls.__name__.endswith("Key") else "value"
            assert seen.setdefault((topic, side, cls.api_key), cls.__name__) == cls.__name__
