from __future__ import annotations

import pytest

from barnabas.core.controller.quotas import ANY, DEFAULT, EXACT, alter_client_quotas, describe_client_quotas
from barnabas.core.metadata.snapshot import snapshot
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_client_quotas as alter
from barnabas.wire.messages import describe_client_quotas as describe
from barnabas.wire.records.metadata import ClientQuotaRecord, EntityData
from barnabas.wire.schema import Record

RATE = "consumer_byte_rate"
Parts = dict[str, str | None]


Change = tuple[Parts, dict[str, float | None]]


class Image(MetadataImage):
    """Remembers what the last change wrote."""

    written: list[Record]


def change(image: Image, *changes: Change, validate_only: bool = False) -> list[int]:
    """The errors; what is decided is replayed."""
    entries = [
        alter.EntryData(
            entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
            ops=[
                alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in values.items()
            ],
        )
        for parts, values in changes
    ]
    request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    decision = alter_client_quotas(image, request, is_address=lambda host: host == "10.0.0.1")
    image.written = list(decision.records)
    image.replay_all(decision.records)
    return [entry.error_code for entry in decision.response.entries]


def found(image: Image, *components: tuple[str, int, str | None], strict: bool = False) -> list[Parts]:
    parts = [describe.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = describe_client_quotas(image, describe.DescribeClientQuotasRequest(components=parts, strict=strict))
    return [{part.entity_type: part.entity_name for part in entry.entity} for entry in answer.entries or []]


@pytest.fixture
def image() -> Image:
    return Image()


def test_a_quota_is_a_record_a_change_another_and_nothing_if_it_is_so_already(image: Image) -> None:
    anna = [EntityData(entity_type="user", entity_name="anna")]
    assert change(image, ({"user": "anna"}, {RATE: 5.0})) == [0]
    assert image.written == [ClientQuotaRecord(entity=anna, key=RATE, value=5.0)]
    assert change(image, ({"user": "anna"}, {RATE: 5.0, "request_percentage": None})) == [0]
    assert image.written == []
    assert change(image, ({"user": "anna"}, {RATE: 6.0}), validate_only=True) == [0]
    assert image.written == []
    copy = MetadataImage()
    copy.replay_all(list(snapshot(image)))
    assert copy.client_quotas == image.client_quotas == {(("user", "anna"),): {RATE: 5.0}}
    assert change(image, ({"user": "anna"}, {RATE: None})) == [0]
    assert image.written == [ClientQuotaRecord(entity=anna, key=RATE, remove=True)]
    assert image.client_quotas == {}


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ({}, {RATE: 1.0}),
        ({"group": "g"}, {RATE: 1.0}),
        ({"user": ""}, {RATE: 1.0}),
        ({"user": "u", "ip": "10.0.0.1"}, {RATE: 1.0}),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1.0}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 2.0**31}),
        ({"user": "u"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {RATE: 0.0}),
        ({"user": "u"}, {RATE: 1.5}),
        ({"user": "u"}, {RATE: 1e30}),
    ],
)
def test_what_is_no_quota_is_refused_and_the_next_entry_is_not(
    image: Image, parts: Parts, values: dict[str, float | None]
) -> None:
    assert change(image, (parts, values), ({"client-id": None}, {"request_percentage": 12.5})) == [42, 0]
    assert image.client_quotas == {(("client-id", None),): {"request_percentage": 12.5}}


def test_an_entity_that_is_there_twice_is_set_once(image: Image) -> None:
    assert change(image, ({"user": "u"}, {RATE: 1.0}), ({"user": "u"}, {RATE: 2.0})) == [42]
    assert image.client_quotas == {(("user", "u"),): {RATE: 1.0}}


def test_entities_are_found_by_their_parts(image: Image) -> None:
    both: Parts = {"client-id": "c", "user": "u"}
    entities: list[Parts] = [{"user": "u"}, {"user": None}, {"client-id": "c"}, both]
    change(image, *((entity, {RATE: 1.0}) for entity in entities))
    assert found(image) == entities
    assert found(image, strict=True) == []
    assert found(image, ("user", EXACT, "u")) == [{"user": "u"}, both]
    assert found(image, ("user", EXACT, "u"), strict=True) == [{"user": "u"}]
    assert found(image, ("user", DEFAULT, None)) == [{"user": None}]
    assert found(image, ("user", ANY, None), strict=True) == [{"user": "u"}, {"user": None}]
    assert found(image, ("user", ANY, None), ("client-id", EXACT, "c")) == [both]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("group", EXACT, "g")], ErrorCode.UNSUPPORTED_VERSION),
        ([("", EXACT, "g")], ErrorCode.INVALID_REQUEST),
        ([("user", 7, "g")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, "g")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_questions_that_make_no_sense(
    image: Image, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        found(image, *components)
    assert refused.value.code is code
