"""UUIDs as Kafka shows and reads them."""

import pytest

from barnabas.wire.uuids import ONE_UUID, RESERVED, ZERO_UUID, Uuid


def test_a_uuid_is_shown_in_url_safe_base64_without_padding() -> None:
    uuid = Uuid(bytes.fromhex("fbefbe3e8f984c8b8d8e8f9091929394"))
    assert str(uuid) == "----Po-YTIuNjo-QkZKTlA"
    assert Uuid.parse(str(uuid)) == uuid
    assert repr(uuid) == "Uuid('----Po-YTIuNjo-QkZKTlA')"


def test_the_reserved_ones_have_well_known_names() -> None:
    assert str(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert str(ONE_UUID) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert {ZERO_UUID, ONE_UUID} < RESERVED
    assert len(RESERVED) == 100


def test_padding_may_be_given() -> None:
    assert Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ==") == ONE_UUID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "AAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAA!",
        "AAAAAAAAAAA AAAAAAAAAAAA",
        "AAAAAAAAAAAAAAAAAAAAA+",
        "AAAAAAAAAAAAAAAAAAAAAé",
        "AAAAAAAAAAAAAAAAAAAAAA\n",
        "123e4567-e89b-12d3-a456-426614174000",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID of 22 base64 characters"):
        Uuid.parse(text)


def test_random_ones_are_of_version_4_and_can_be_an_argument_of_a_command() -> None:
    drawn = [Uuid.random() for _ in range(2000)]
    assert len(set(drawn)) == 2000
    for uuid in drawn:
        assert (uuid[6] >> 4, uuid[8] >> 6) == (4, 2)
        assert not str(uuid).startswith("-")
