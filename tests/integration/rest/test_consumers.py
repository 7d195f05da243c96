"""Consumers of v2: they live in their group, and any proxy answers for any of them."""

from __future__ import annotations

import itertools
import os
import time
from typing import Any

import confluent_kafka
import pytest

from barnabas.testing.rest import Rest
from tests.integration.rest.conftest import Api, Stage
from tests.support.waiting import LIMIT_S, wait_until

_numbers = itertools.count(1)
SENSOR = '{"type":"record","name":"S","fields":[{"name":"id","type":"string"},{"name":"v","type":["null","long"]}]}'


class Consumer:
    """One instance, asked through whichever proxy is given."""

    def __init__(self, api: Api, form: str, group: str | None = None, **settings: str) -> None:
        self.form = form
        self.group = group or f"group-{os.getpid()}-{next(_numbers)}"
        self.name = f"instance-{next(_numbers)}"
        given = {name.replace("_", "."): value for name, value in settings.items()}
        body = {"name": self.name, "format": form, "auto.offset.reset": "earliest", **given}
        status, made = api("POST", f"/consumers/{self.group}", body)
        assert status == 200, made
        self.path = f"/consumers/{self.group}/instances/{self.name}"
        assert made == {"instance_id": self.name, "base_uri": f"http://127.0.0.1:{api.port}{self.path}"}

    def subscribe(self, api: Api, *topics: str) -> None:
        assert api("POST", f"{self.path}/subscription", {"topics": list(topics)}) == (204, None)

    def records(self, api: Api) -> list[dict[str, Any]]:
        status, found = api("GET", f"{self.path}/records", Accept=f"application/vnd.kafka.{self.form}.v2+json")
        assert status == 200, found
        return found  # type: ignore[no-any-return]

    def values(self, count: int, *apis: Api) -> list[Any]:
        """Reads until so many have come, from each proxy in turn."""
        found: list[Any] = []
        until = time.monotonic() + LIMIT_S
        for api in itertools.cycle(apis):
            found += [each["value"] for each in self.records(api)]
            if len(found) >= count:
                return found
            assert time.monotonic() < until, found
        raise AssertionError


def test_the_story_of_the_documentation(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    api("POST", f"/topics/{topic}", {"records": [{"key": "a2V5", "value": "S2Fma2E="}]})
    consumer = Consumer(api, "binary")
    consumer.subscribe(api, topic)
    assert api("GET", f"{consumer.path}/subscription") == (200, {"topics": [topic]})
    wait_until(lambda: api("GET", f"{consumer.path}/assignments")[1]["partitions"])
    assert api("GET", f"{consumer.path}/assignments") == (200, {"partitions": [{"topic": topic, "partition": 0}]})
    record = {"topic": topic, "key": "a2V5", "value": "S2Fma2E=", "partition": 0, "offset": 0}
    assert consumer.records(api) == [record]
    places = {"partitions": [{"topic": topic, "partition": 0}]}
    committed = {"offsets": [{"topic": topic, "partition": 0, "offset": 1, "metadata": ""}]}
    assert api("GET", f"{consumer.path}/offsets", places) == (200, committed)
    assert api("POST", f"{consumer.path}/positions/beginning", places) == (204, None)
    assert consumer.records(api) == [record]
    assert api("POST", f"{consumer.path}/positions/end", places) == (204, None)
    assert api("GET", f"{consumer.path}/records?timeout=50") == (200, [])
    at = {"offsets": [{"topic": topic, "partition": 0, "offset": 0}]}
    assert api("POST", f"{consumer.path}/positions", at) == (204, None)
    assert consumer.records(api) == [record]
    assert api("DELETE", consumer.path) == (204, None)
    assert api("GET", f"{consumer.path}/records")[1]["error_code"] == 40403


@pytest.mark.parametrize(
    ("form", "value", "more"),
    [
        ("json", {"foo": ["bär", 1, None]}, {}),
        ("avro", {"id": "t1", "v": {"long": 999}}, {"value_schema": SENSOR}),
        ("jsonschema", {"n": 5}, {"value_schema": '{"type":"object"}'}),
        ("protobuf", {"id": "t1"}, {"value_schema": 'syntax = "proto3"; message R { string id = 1; }'}),
    ],
)
def test_every_format(stage: Stage, api: Api, form: str, value: Any, more: Any) -> None:
    topic = stage.new_topic()
    assert api.produce(topic, form, value, **more)[0] == 200
    consumer = Consumer(api, form)
    consumer.subscribe(api, topic)
    assert consumer.values(1, api) == [value]
    other = "binary" if form == "json" else "json"
    status, answer = api("GET", f"{consumer.path}/records", Accept=f"application/vnd.kafka.{other}.v2+json")
    assert (status, answer["error_code"]) == (406, 40601)


@pytest.mark.parametrize("auto_commit", ["true", "false"])
def test_every_proxy_goes_on_where_another_was(stage: Stage, auto_commit: str) -> None:
    one, other = stage.apis
    topic = stage.new_topic(3)
    consumer = Consumer(one, "json", auto_commit_enable=auto_commit)
    consumer.subscribe(one, topic)
    read: list[Any] = []
    for number in range(12):
        body = {"records": [{"value": number, "partition": number % 3}]}
        one("POST", f"/topics/{topic}", body, Content_Type="application/vnd.kafka.json.v2+json")
        read += consumer.values(1, *((one, other) if number % 2 else (other, one)))
    assert read == list(range(12))
    members = one("GET", f"{stage.cluster}/consumer-groups/{consumer.group}/consumers")[1]["data"]
    assert [each["instance_id"] for each in members] == [consumer.name]


def test_an_instance_in_whose_place_somebody_joined_late_is_taken_back(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    consumer = Consumer(api, "json")
    consumer.subscribe(api, topic)
    for number in range(3):
        assert api.produce(topic, "json", number)[0] == 200
        assert consumer.values(1, api) == [number]
        joined_in_place_of(stage, consumer.group, consumer.name, topic)
        assert consumer.records(api) == []


def joined_in_place_of(stage: Stage, group: str, instance: str, topic: str) -> None:
    """As a proxy that was asked before, and whose request to join took long."""
    properties = {"bootstrap.servers": stage.node.bootstrap_servers, "group.id": group, "group.instance.id": instance}
    late = confluent_kafka.Consumer(properties)
    late.subscribe([topic])
    wait_until(lambda: late.poll(0.05) is None and late.assignment())
    late.close()


def test_two_instances_share_a_topic_and_idle_ones_hold_nobody_up(stage: Stage) -> None:
    one, other = stage.apis
    topic = stage.new_topic(2)
    first = Consumer(one, "json")
    first.subscribe(one, topic)
    wait_until(lambda: len(one("GET", f"{first.path}/assignments")[1]["partitions"]) == 2)
    second = Consumer(other, "json", group=first.group)
    second.subscribe(other, topic)
    # Nobody asks for the first one meanwhile.
    wait_until(lambda: len(other("GET", f"{second.path}/assignments")[1]["partitions"]) == 1)
    assert other("DELETE", second.path) == (204, None)
    wait_until(lambda: len(one("GET", f"{first.path}/assignments")[1]["partitions"]) == 2)


def test_partitions_assigned_by_hand_move_too(stage: Stage) -> None:
    one, other = stage.apis
    topic = stage.new_topic(2)
    one.produce(topic, "json", *range(5), partition=0)
    body = {"records": [{"value": number, "partition": 1} for number in range(5)]}
    one("POST", f"/topics/{topic}", body, Content_Type="application/vnd.kafka.json.v2+json")
    consumer = Consumer(one, "json", auto_commit_enable="false")
    assert one("POST", f"{consumer.path}/assignments", {"partitions": [{"topic": topic, "partition": 1}]}) == (
        204,
        None,
    )
    assert one("POST", f"{consumer.path}/subscription", {"topics": [topic]})[1]["error_code"] == 40901
    at = {"offsets": [{"topic": topic, "partition": 1, "offset": 3}]}
    assert other("POST", f"{consumer.path}/positions", at) == (204, None)
    assert one("GET", f"{consumer.path}/assignments")[1] == {"partitions": [{"topic": topic, "partition": 1}]}
    found = consumer.values(2, one)
    assert found[:2] == [3, 4]
    assert one("POST", f"{consumer.path}/offsets", at) == (200, [])
    places = {"partitions": [{"topic": topic, "partition": 1}]}
    assert other("GET", f"{consumer.path}/offsets", places)[1]["offsets"][0]["offset"] == 4


def test_a_proxy_is_killed_and_another_goes_on(stage: Stage) -> None:
    topic = stage.new_topic()
    one = stage.apis[0]
    with Rest(stage.node.bootstrap_servers) as doomed:
        there = Api(doomed.port)
        consumer = Consumer(there, "json", auto_commit_enable="false")
        consumer.subscribe(there, topic)
        one.produce(topic, "json", "before")
        assert consumer.values(1, there) == ["before"]
        doomed.kill()
        one.produce(topic, "json", "after")
        assert consumer.values(1, one) == ["after"]


def test_instances_that_nobody_asks_for_are_ended(stage: Stage) -> None:
    topic = stage.new_topic()
    config = {"consumer.instance.timeout.ms": 1500}
    with Rest(stage.node.bootstrap_servers, config) as short:
        api = Api(short.port)
        consumer = Consumer(api, "json")
        consumer.subscribe(api, topic)
        group = f"{stage.cluster}/consumer-groups/{consumer.group}/consumers"
        wait_until(lambda: api("GET", group)[1].get("data"))
        wait_until(lambda: not api("GET", group)[1].get("data"))
        wait_until(lambda: api("GET", f"{consumer.path}/subscription")[0] == 404)


def test_a_record_that_cannot_be_read_is_told_and_can_be_skipped(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    api.produce(topic, "json", "good")
    api.produce(topic, "binary", "e3s=")
    api.produce(topic, "json", "later")
    consumer = Consumer(api, "json")
    consumer.subscribe(api, topic)
    assert consumer.values(1, api) == ["good"]
    for _ in range(2):
        status, answer = api("GET", f"{consumer.path}/records")
        assert (status, answer["error_code"]) == (500, 50002)
        assert f"{topic}-0 at offset 1" in answer["message"]
    api("POST", f"{consumer.path}/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]})
    assert consumer.values(1, api) == ["later"]


def test_max_bytes_leaves_the_rest_for_later(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    api.produce(topic, "json", *["x" * 100] * 5)
    consumer = Consumer(api, "json")
    consumer.subscribe(api, topic)
    sizes: list[int] = []
    until = time.monotonic() + LIMIT_S
    while sum(sizes) < 5:
        assert time.monotonic() < until
        sizes.append(len(api("GET", f"{consumer.path}/records?max_bytes=250")[1]))
    assert [each for each in sizes if each] == [2, 2, 1]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"format": "xml"}, 422, 422),
        ({"enable.auto.commit": "false"}, 422, 422),
        ({"fetch.min.bytes": 10_000_001}, 422, 40001),
        ({"responseMinBytes": -2}, 422, 40001),
        ({"auto.offset.reset": "sometimes"}, 422, 42204),
        ({"auto.commit.enable": "perhaps"}, 422, 42204),
        ({"fetch.min.bytes": "x"}, 422, 42204),
        ({"name": "a/b"}, 422, 42204),
        ([], 200, None),
        (5, 422, 422),
    ],
)
def test_settings_that_make_no_sense(api: Api, body: Any, status: int, code: int | None) -> None:
    got, answer = api("POST", f"/consumers/odd-{next(_numbers)}", body)
    assert (got, answer.get("error_code")) == (status, code), answer


def test_an_instance_goes_to_a_point_in_time(stage: Stage) -> None:
    """Asked of one proxy, read from the other."""
    one, other = stage.apis
    topic = stage.new_topic()
    path = f"{stage.cluster}/topics/{topic}/records"
    for second in range(3):
        record = {"value": {"type": "JSON", "data": second}, "timestamp": f"2024-01-01T00:00:0{second}Z"}
        assert one("POST", path, record)[0] == 200
    consumer = Consumer(one, "json")
    place = {"topic": topic, "partition": 0}
    assert one("POST", f"{consumer.path}/assignments", {"partitions": [place]})[0] == 204
    for time_given, read in (
        ("2024-01-01T00:00:00.500Z", [1, 2]),
        (1704067202000, [2]),
        ("2024-01-01T00:01:00Z", []),
    ):
        body = {"timestamps": [place | {"timestamp": time_given}]}
        assert one("POST", f"{consumer.path}/positions", body) == (204, None)
        found = other("GET", f"{consumer.path}/records?timeout=200")[1]
        assert [each["value"] for each in found] == read
    status, answer = one("POST", f"{consumer.path}/positions", {"timestamps": [place | {"timestamp": "noon"}]})
    assert (status, answer["error_code"]) == (422, 422)
    # A question for no partition at all.
    assert one("GET", f"{consumer.path}/offsets")[1]["error_code"] == 40402


def test_types_of_records_are_taken_wherever_consumers_are_asked_for(stage: Stage, api: Api) -> None:
    """As clients send them that set their headers once."""
    topic = stage.new_topic()
    kind = "application/vnd.kafka.json.v2+json"
    both = {"Content_Type": kind, "Accept": kind}
    group = f"typed-{next(_numbers)}"
    body = {"id": "by-id", "name": "not-taken", "format": "json", "auto.offset.reset": "earliest"}
    status, made = api("POST", f"/consumers/{group}", body, **both)
    assert (status, made["instance_id"]) == (200, "by-id")
    path = f"/consumers/{group}/instances/by-id"
    assert api("POST", f"{path}/subscription", {"topics": [topic]}, **both) == (204, None)
    assert api("GET", f"{path}/subscription", Accept=kind) == (200, {"topics": [topic]})
    assert api("DELETE", path, Content_Type=kind) == (204, None)


def test_patterns_of_topics_take_bounded_time(stage: Stage, api: Api) -> None:
    """Python's own engine would try for years whether the name of the second topic fits."""
    prefix = f"p{os.getpid()}x{next(_numbers)}"
    fitting, other = f"{prefix}{'a' * 40}", f"{prefix}{'a' * 40}b"
    for topic in (fitting, other):
        assert api("POST", f"{stage.cluster}/topics", {"topic_name": topic})[0] == 201
        assert api.produce(topic, "json", topic)[0] == 200
    consumer = Consumer(api, "json")
    status, _ = api("POST", f"{consumer.path}/subscription", {"topic_pattern": f"{prefix}(a+)+"})
    assert status == 204
    assert consumer.values(1, api) == [fitting]
    assert api("GET", f"{consumer.path}/subscription") == (200, {"topics": [fitting]})
    for pattern in ("(", "(?!x).*", r"(a)\1", "a" * 2_000, 5):
        status, answer = api("POST", f"{consumer.path}/subscription", {"topic_pattern": pattern})
        assert (status, answer["error_code"]) == (422, 422), pattern


def test_an_address_is_one_whatever_an_instance_is_called(api: Api) -> None:
    group = Consumer(api, "json").group
    answer = api("POST", f"/consumers/{group}", {"name": "my consumer"})[1]
    assert answer["instance_id"] == "my consumer"
    assert answer["base_uri"].endswith(f"/consumers/{group}/instances/my%20consumer")
    assert api("DELETE", f"/consumers/{group}/instances/my%20consumer") == (204, None)


def test_a_group_falls_behind(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    assert api.produce(topic, "json", "read")[0] == 200
    consumer = Consumer(api, "json")
    consumer.subscribe(api, topic)
    assert [each["value"] for each in consumer.records(api)] == ["read"]
    for number in range(3):
        assert api.produce(topic, "json", number)[0] == 200
    path = f"{stage.cluster}/consumer-groups/{consumer.group}"

    def told() -> tuple[Any, ...]:
        group, summary = api("GET", path)[1], api("GET", f"{path}/lag-summary")[1]
        lag = api("GET", f"{path}/lags/{topic}/partitions/0")[1]
        offsets = lag["current_offset"], lag["log_end_offset"], lag["lag"]
        return group["state"], group["is_simple"], summary["max_lag"], summary["total_lag"], offsets

    assert told() == ("STABLE", False, 3, 3, (1, 4, 3))
    assert api("DELETE", consumer.path) == (204, None)
    wait_until(lambda: api("GET", path)[1]["state"] == "EMPTY")
    assert told() == ("EMPTY", False, 3, 3, (1, 4, 3))  # its members are gone, what they had read is not


def test_a_name_is_given_once(stage: Stage) -> None:
    one, other = stage.apis
    consumer = Consumer(one, "json")
    status, answer = other("POST", f"/consumers/{consumer.group}", {"name": consumer.name})
    assert (status, answer["error_code"]) == (409, 40902)
    assert one("GET", f"{consumer.path}/records")[1]["error_code"] == 40903
