"""Byte for byte with kio: it reads what we wrote, and writes the same bytes again."""

import dataclasses
import importlib
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import classify_field

from barnabas.wire.schema import Message
from barnabas.wire.shapes import Field, fields_of
from tests.support.random_messages import RandomMessages, message_classes, versions_of

EXAMPLES = 5
# kio has what travels between processes. What Kafka keeps in its internal topics and files it does not have.
NOT_IN_KIO = {
    "consumer_groups",
    "groups",
    "metadata",
    "remote_log",
    "share_groups",
    "share_state",
    "storage",
    "streams_groups",
    "transactions",
}
CLASSES = message_classes()


def is_in_kio(cls: type[Message]) -> bool:
    return not (".records." in cls.__module__ and cls.__module__.rpartition(".")[2] in NOT_IN_KIO)


def kio_entity(cls: type[Message], version: int) -> type[Any] | None:
    """kio has a class per version, in a module named by the API and the side."""
    name, side = cls.__name__, "header" if cls.__name__.endswith("Header") else "data"
    for suffix in ("Request", "Response"):
        if name.endswith(suffix):
            name, side = name.removesuffix(suffix), suffix.lower()
    schema = re.sub("(?<=.)(?=[A-Z])", "_", name).lower()
    try:
        module = importlib.import_module(f"kio.schema.{schema}.v{version}.{side}")
    except ModuleNotFoundError:
        return None
    entity: type[Any] = getattr(module, cls.__name__)
    return entity


Chooser = Callable[[RandomMessages], Any]


def any_of(*values: int) -> Chooser:
    return lambda chance: chance.random.choice(values)


def narrower_types(cls: type[Any], entity: type[Any], version: int) -> dict[tuple[type[Any], str], Chooser]:
    """kio makes error codes an enumeration and times a datetime, which hold less than the wire does."""
    found: dict[tuple[type[Any], str], Chooser] = {}
    ours = [item for item in fields_of(cls) if item.in_version(version)]
    theirs = dataclasses.fields(entity)
    assert len(ours) == len(theirs), f"{cls.__name__} has other fields than kio's in version {version}"
    for item, other in zip(ours, theirs, strict=True):
        if item.struct is not None:
            found |= narrower_types(item.struct, classify_field(other).type_, version)
        elif other.metadata["kafka_type"] == "error_code":
            found[cls, item.name] = any_of(*(code.value for code in KioErrorCode))
        elif other.metadata["kafka_type"] == "datetime_i64":
            found[cls, item.name] = any_of(0, 1, 1_700_000_000_123, -1 if "None" in str(other.type) else 2)
        elif other.metadata["kafka_type"] == "timedelta_i64":
            found[cls, item.name] = any_of(0, 1, -1, 10**12)
    return found


def random_message(cls: type[Message], entity: type[Any], version: int, example: int) -> Message:
    narrower = narrower_types(cls, entity, version)

    def choose(struct: type[Any], item: Field) -> Any:
        chooser = narrower.get((struct, item.name))
        return NotImplemented if chooser is None else chooser(chance)

    chance = RandomMessages((cls.__name__, version, example), choose)
    return chance.message(cls, version)


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if is_in_kio(cls)], ids=lambda cls: cls.__name__)
def test_kio_reads_and_writes_the_same_bytes(cls: type[Message]) -> None:
    for version in versions_of(cls):
        entity = kio_entity(cls, version)
        assert entity is not None, f"kio has no {cls.__name__} version {version}"
        read, write = entity_reader(entity), entity_writer(entity)
        for example in range(EXAMPLES):
            encoded = bytes(random_message(cls, entity, version, example).encode(version))
            theirs, size = read(encoded, 0)
            assert size == len(encoded), (version, example)
            written = io.BytesIO()
            write(written, theirs)
            assert written.getvalue() == encoded, (version, example)


def test_what_is_said_to_be_missing_in_kio_is_missing() -> None:
    missing = [cls for cls in CLASSES if not is_in_kio(cls)]
    assert {cls.__module__.rpartition(".")[2] for cls in missing} == NOT_IN_KIO
    assert [cls.__name__ for cls in missing if kio_entity(cls, cls.valid_versions[0]) is not None] == []
