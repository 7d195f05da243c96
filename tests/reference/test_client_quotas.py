"""Client quotas: the same alterations and questions to Apache Kafka and to our node."""

from __future__ import annotations

import time
from typing import Any

import pytest

from barnabas.wire.messages import alter_client_quotas as alter
from barnabas.wire.messages import describe_client_quotas as describe

EXACT, DEFAULT, ANY = 0, 1, 2
VERSIONS = range(2)
SETTLE_S = 5.0
Entity = dict[str, str | None]


def entity(parts: Entity) -> list[alter.EntityData]:
    return [alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()]


def change(
    both: Any, version: int, *changes: tuple[Entity, dict[str, float | None]], validate_only: bool = False
) -> Any:
    entries = [
        alter.EntryData(
            entity=entity(parts),
            ops=[
                alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                for key, value in values.items()
            ],
        )
        for parts, values in changes
    ]
    request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    both.same(request, version, ignoring=["entries"])
    first, *rest = [sorted(map(told, answer.entries)) for answer in both.answers]
    assert all(each == first for each in rest), [first, *rest]
    return first


def told(entry: Any) -> tuple[list[tuple[str, str]], int, bool]:
    parts = sorted((part.entity_type, str(part.entity_name)) for part in entry.entity)
    return parts, entry.error_code, entry.error_message is None


def ask(both: Any, version: int, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    parts = [describe.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    request = describe.DescribeClientQuotasRequest(components=parts, strict=strict)
    limit = time.monotonic() + SETTLE_S
    while True:  # Kafka answers before a change is applied
        both.same(request, version, ignoring=["entries"])
        found = [sorted(map(listed, answer.entries)) for answer in both.answers]
        if all(each == found[0] for each in found) or time.monotonic() > limit:
            break
    assert all(each == found[0] for each in found), found
    return found[0]


def listed(entry: Any) -> tuple[list[tuple[str, str]], list[tuple[str, float]]]:
    parts = sorted((part.entity_type, str(part.entity_name)) for part in entry.entity)
    return parts, sorted((each.key, each.value) for each in entry.values)


@pytest.mark.parametrize("version", VERSIONS)
def test_quotas_are_set_found_and_removed(both: Any, version: int) -> None:
    rate, time = "consumer_byte_rate", "request_percentage"
    anna: Entity = {"user": f"anna-{version}"}
    pair: Entity = {"user": f"anna-{version}", "client-id": "laptop"}
    everybody: Entity = {"user": None}
    every_client: Entity = {"user": f"anna-{version}", "client-id": None}
    change(both, version, (anna, {rate: 1000.0, time: 12.5}), (pair, {rate: 10.0}), (everybody, {rate: 99.0}))
    change(both, version, (every_client, {"producer_byte_rate": 7.0}), ({"client-id": "laptop"}, {rate: 1.0}))
    change(
        both,
        version,
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 5.0}),
        ({"ip": None}, {"connection_creation_rate": 6.0}),
    )
    user = f"anna-{version}"
    for strict in (False, True):
        ask(both, version, strict=strict)
        ask(both, version, ("user", EXACT, user), strict=strict)
        ask(both, version, ("user", EXACT, "nobody"), strict=strict)
        ask(both, version, ("user", DEFAULT, None), strict=strict)
        ask(both, version, ("user", ANY, None), strict=strict)
        ask(both, version, ("client-id", EXACT, "laptop"), strict=strict)
        ask(both, version, ("user", EXACT, user), ("client-id", ANY, None), strict=strict)
        ask(both, version, ("user", EXACT, user), ("client-id", DEFAULT, None), strict=strict)
        ask(both, version, ("user", ANY, None), ("client-id", EXACT, "laptop"), strict=strict)
        ask(both, version, ("ip", ANY, None), strict=strict)
    change(both, version, (anna, {rate: 2000.0, time: None}))
    ask(both, version, ("user", EXACT, user), strict=True)
    change(both, version, (anna, {rate: 5.0}), validate_only=True)
    ask(both, version, ("user", EXACT, user), strict=True)
    for each in (anna, pair, everybody):
        change(both, version, (each, {rate: None}))
    change(both, version, (every_client, {"producer_byte_rate": None}), ({"client-id": "laptop"}, {rate: None}))
    change(both, version, ({"ip": "127.0.0.1"}, {"connection_creation_rate": None}))
    change(both, version, ({"ip": None}, {"connection_creation_rate": None}))
    assert ask(both, version) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ({"user": "u"}, {"nonsense": 1.0}),
        ({"user": "u"}, {"nonsense": None}),
        ({"user": "u"}, {"consumer_byte_rate": 0.0}),
        ({"user": "u"}, {"consumer_byte_rate": -1.0}),
        ({"user": "u"}, {"consumer_byte_rate": 1.5}),
        ({"user": "u"}, {"consumer_byte_rate": 1e30}),
        ({"user": "u"}, {"consumer_byte_rate": None}),
        ({"user": "u"}, {"connection_creation_rate": 1.0}),
        ({"user": "u"}, {}),
        ({"nonsense": "u"}, {"consumer_byte_rate": 1.0}),
        ({"user": "u", "nonsense": "u"}, {"consumer_byte_rate": 1.0}),
        ({"user": "u", "ip": "127.0.0.1"}, {"consumer_byte_rate": 1.0}),
        ({"ip": "no address"}, {"connection_creation_rate": 1.0}),
        ({"ip": "127.0.0.1"}, {"connection_creation_rate": 1.5}),
        ({"ip": "127.0.0.1"}, {"consumer_byte_rate": 1.0}),
        ({"user": ""}, {"consumer_byte_rate": 1.0}),
        ({}, {"consumer_byte_rate": 1.0}),
    ],
)
def test_quotas_that_cannot_be_set(both: Any, version: int, parts: Entity, values: dict[str, float | None]) -> None:
    change(both, version, (parts, values))
    change(both, version, (parts, dict.fromkeys(values)))


def test_an_entity_that_is_there_twice(both: Any) -> None:
    request = alter.AlterClientQuotasRequest(
        entries=[
            alter.EntryData(entity=entity({"user": "twice"}), ops=[alter.OpData(key="consumer_byte_rate", value=value)])
            for value in (1.0, 2.0)
        ]
    )
    both.same(request, 1)
    ask(both, 1, ("user", EXACT, "twice"))
    change(both, 1, ({"user": "twice"}, {"consumer_byte_rate": None}))


def test_one_bad_entry_does_not_keep_the_others_back(both: Any) -> None:
    rate = "consumer_byte_rate"
    change(both, 1, ({"user": "good"}, {rate: 3.0}), ({"user": "bad"}, {"nonsense": 1.0}))
    ask(both, 1, ("user", EXACT, "good"))
    change(both, 1, ({"user": "good"}, {rate: None}))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "components",
    [
        [("nonsense", EXACT, "u")],
        [("user", 7, "u")],
        [("user", EXACT, None)],
        [("user", DEFAULT, "u")],
        [("user", ANY, "u")],
        [("", EXACT, "u")],
        [("user", EXACT, "u"), ("user", EXACT, "v")],
        [("user", EXACT, "u"), ("ip", EXACT, "127.0.0.1")],
        [("ip", EXACT, "127.0.0.1"), ("client-id", EXACT, "c")],
    ],
)
def test_questions_that_cannot_be_answered(
    both: Any, version: int, components: list[tuple[str, int, str | None]]
) -> None:
    parts = [describe.ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    both.same(describe.DescribeClientQuotasRequest(components=parts), version)
