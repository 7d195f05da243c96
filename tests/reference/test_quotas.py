"""Quotas as Apache Kafka applies them: who is throttled, for how long, and what is refused.

One request of a client that has just come is throttled for a time that depends on nothing but its size: both servers
say the same. Each test has client ids of its own.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from barnabas.wire.messages import alter_client_quotas as alter
from barnabas.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import Connection, Side

THROTTLED = 89
_names = itertools.count(1)


def set_quota(both: Any, entity: dict[str, str | None], **limits: float) -> None:
    parts = [alter.EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()]
    ops = [alter.OpData(key=key, value=value) for key, value in limits.items()]
    request = alter.AlterClientQuotasRequest(entries=[alter.EntryData(entity=parts, ops=ops)])
    for side in both.sides:
        answer = side.ask(request, 1)
        assert [entry.error_code for entry in answer.entries] == [0]


def client(side: Side, client_id: str) -> Connection:
    return Connection(side.host, side.port, client_id)


def produce(topic: str, size: int) -> ProduceRequest:
    records = crafted_batch([(b"key", b"x" * size)])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    return ProduceRequest(acks=-1, timeout_ms=15_000, topic_data=data)


def until_quota_holds(side: Side, client_id: str, topic: str) -> Any:
    """Kafka answers AlterClientQuotas before the quota is applied: each try is a new client id with the same limit."""
    limit = time.monotonic() + 20
    while True:
        with client(side, client_id) as one:
            answer: Any = one.ask(produce(topic, 20_000), 9)
        if answer.throttle_time_ms or time.monotonic() > limit:
            return answer
        time.sleep(0.3)


@pytest.mark.parametrize("entity", ["client_id", "user", "both"])
def test_a_producer_is_throttled_for_the_same_time(both: Any, entity: str) -> None:
    name = f"producer-{next(_names)}"
    topic = both.topic()
    parts = {"client_id": name} | ({"user": "ANONYMOUS"} if entity == "both" else {})
    if entity == "user":
        parts = {"user": "ANONYMOUS"}
    set_quota(both, parts, producer_byte_rate=1500)
    try:
        throttles = [until_quota_holds(side, name, topic).throttle_time_ms for side in both.sides]
    finally:
        remove = [alter.OpData(key="producer_byte_rate", remove=True)]
        named = [alter.EntityData(entity_type=k.replace("_", "-"), entity_name=v) for k, v in parts.items()]
        for side in both.sides:
            side.ask(alter.AlterClientQuotasRequest(entries=[alter.EntryData(entity=named, ops=remove)]), 1)
    assert throttles[0] == throttles[1] > 1000


def test_a_client_that_has_to_keep_still_is_not_served(both: Any) -> None:
    name = f"still-{next(_names)}"
    topic = both.topic()
    set_quota(both, {"client_id": name}, producer_byte_rate=1900)
    for side in both.sides:
        limit = time.monotonic() + 20
        throttled = 0
        while not throttled:
            assert time.monotonic() < limit
            with client(side, name) as one:
                answer: Any = one.ask(produce(topic, 20_000), 9)
                throttled = answer.throttle_time_ms
                if throttled:
                    answered_at = time.monotonic()
                    one.ask(MetadataRequest(topics=[]), 12)
                    assert time.monotonic() - answered_at >= throttled / 1000 - 0.05, side.name


def test_a_consumer_is_throttled(both: Any) -> None:
    name = f"consumer-{next(_names)}"
    topic = both.topic()
    both.produce(topic, crafted_batch([(b"key", b"x" * 30_000)]))
    set_quota(both, {"client_id": name}, consumer_byte_rate=2000)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[part])])
    throttles = []
    for side in both.sides:
        limit = time.monotonic() + 20
        while True:
            with client(side, name) as one:
                answer: Any = one.ask(request, 12)
            if answer.throttle_time_ms:
                throttles.append(answer.throttle_time_ms)
                break
            assert time.monotonic() < limit
    assert abs(throttles[0] - throttles[1]) < 200  # headers of the answer are counted differently, by some bytes


def test_changes_of_topics_beyond_the_quota_are_refused(both: Any) -> None:
    name = f"admin-{next(_names)}"
    set_quota(both, {"client_id": name}, controller_mutation_rate=0.01)
    existing = both.topic()
    errors = []
    for side in both.sides:
        told = []
        with client(side, name) as one:
            limit = time.monotonic() + 20
            while True:  # until the quota holds
                topic = f"quota-{next(_names)}"
                new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
                answer: Any = one.ask(CreateTopicsRequest(topics=[new], timeout_ms=15_000, validate_only=True), 5)
                if answer.throttle_time_ms:
                    break
                assert time.monotonic() < limit
            told.append(answer.topics[0].error_code)
        requests: list[tuple[Any, int, str]] = [
            (CreateTopicsRequest(topics=[new], timeout_ms=15_000), 7, "topics"),
            (CreateTopicsRequest(topics=[new], timeout_ms=15_000), 6, "topics"),
            (
                CreatePartitionsRequest(
                    topics=[CreatePartitionsTopic(name=existing, count=3, assignments=None)], timeout_ms=15_000
                ),
                3,
                "results",
            ),
            (DeleteTopicsRequest(topics=[DeleteTopicState(name=existing)], timeout_ms=15_000), 6, "responses"),
        ]
        for request, version, results in requests:
            with client(side, name) as one:
                answer = one.ask(request, version)
            told.append((getattr(answer, results)[0].error_code, answer.throttle_time_ms > 0))
        errors.append(told)
    assert errors[0] == errors[1]
    assert errors[0][1:] == [(THROTTLED, True)] * 4
