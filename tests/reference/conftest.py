"""Apache Kafka and our node side by side, and one request for both.

With BARNABAS_TRANSCRIPT=FILE only Apache Kafka is asked and its answers are written to the file: how to find out what
the reference does.
"""

import itertools
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schema import Request, Response, Struct
from barnabas.wire.shapes import fields_of
from tests.support import reference
from tests.support.reference_batches import crafted_batch
from tests.support.reference_exchange import Asked, Side, answer_of, differences

SETTLE_S = 2.0 if "BARNABAS_TRANSCRIPT" not in os.environ else 0.15
TRANSCRIPT = os.environ.get("BARNABAS_TRANSCRIPT")
# Both sides alike: the ids of single nodes, no topic by accident, and no round of retention, which would take records
# of 2023 away from one side before the other.
PROPERTIES = {
    "node.id": "1",
    "auto.create.topics.enable": "false",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[reference.ApacheKafka]:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties=PROPERTIES) as kafka:
        # Producer ids come from a block that is fetched after the start.
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        with Side("Apache Kafka", kafka) as side:
            side.wait_until(request, 4, lambda answer: answer.error_code == 0)
        yield kafka


@pytest.fixture(scope="session")
def barnabas_node() -> Iterator[Any]:
    from barnabas.testing import Node

    with Node(PROPERTIES) as node:
        yield node
        assert node.running, f"the node ended while tests used it: {node.log()[-10_000:]}"


class Both:
    """Asks both servers the same and compares."""

    _numbers = itertools.count(1)

    def __init__(self, kafka: Side, ours: Side | None, name: str) -> None:
        self.kafka = kafka
        self.ours = ours
        self.answers: list[Any] = []  # of the last exchange, in the order of `sides`
        self._name = name

    @property
    def sides(self) -> list[Side]:
        return [side for side in (self.kafka, self.ours) if side is not None]

    def same(
        self,
        asked: Asked,
        version: int,
        *,
        ignoring: Collection[str] = (),
        exact: Collection[str] = (),
    ) -> Response | None:
        """Asks both and fails on a difference; returns Apache Kafka's answer, None where it closed the connection."""
        request = asked(self.kafka) if callable(asked) else asked
        answer = answer_of(self.kafka, request, version)
        self._note(request, version, answer)
        self.answers = [answer]
        if self.ours is not None:
            self.answers.append(answer_of(self.ours, asked, version))
            found = differences(*self.answers, ignoring=ignoring, exact=exact)
            assert not found, "\n".join([f"{brief(request)} version {version}: answers differ", *found])
        return answer

    def settled(self, asked: Request, version: int, *, ignoring: Collection[str] = ()) -> None:
        """As `same`, but the answers may need a moment to agree: Kafka answers before a change is applied."""
        limit = time.monotonic() + SETTLE_S
        while True:
            self.answers = [answer_of(side, asked, version) for side in self.sides]
            found = differences(*self.answers, ignoring=ignoring) if self.ours is not None else []
            if time.monotonic() > limit or (self.ours is not None and not found):
                break
            time.sleep(0.02)
        self._note(asked, version, self.answers[0])
        assert not found, "\n".join([f"{brief(asked)} version {version}: answers differ", *found])

    def produce(self, topic: str, records: bytes, *, partition: int = 0) -> None:
        """Appends to both; it must succeed."""
        data = [PartitionProduceData(index=partition, records=records)]
        request = ProduceRequest(
            acks=-1, timeout_ms=15_000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
        )
        for side in self.sides:
            answer: Any = side.ask(request, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0, (side.name, brief(answer))

    def fill(self, topic: str, records: int, *, partition: int = 0) -> None:
        """So many records, each in a batch of its own."""
        for number in range(records):
            self.produce(topic, crafted_batch([(b"key-%d" % number, b"value")]), partition=partition)

    def delete_records(self, topic: str, offset: int) -> None:
        partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
        topics = [DeleteRecordsTopic(name=topic, partitions=partitions)]
        for side in self.sides:
            answer: Any = side.ask(DeleteRecordsRequest(topics=topics, timeout_ms=15_000), 2)
            assert answer.topics[0].partitions[0].error_code == 0, (side.name, brief(answer))

    def delete_all_topics(self) -> None:
        for side in self.sides:
            found: Any = side.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
            topics = [DeleteTopicState(name=topic.name) for topic in found.topics]
            answer: Any = side.ask(DeleteTopicsRequest(topics=topics, timeout_ms=15_000), 6)
            assert not [result for result in answer.responses if result.error_code], (side.name, brief(answer))
            side.wait_until(MetadataRequest(topics=None), 12, lambda answer: not answer.topics)

    def delete_topic(self, topic: str) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        for side in self.sides:
            side.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=15_000), 6)
            side.wait_until(request, 12, lambda answer: bool(answer.topics[0].error_code))

    def wait_for_partitions(self, topic: str, count: int) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        for side in self.sides:
            side.wait_until(request, 12, lambda answer: len(answer.topics[0].partitions) == count)

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic on both, under the same name; configs with underscores for dots."""
        name = f"topic-{next(self._numbers)}"
        for side in self.sides:
            side.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def new_name(self, prefix: str = "topic") -> str:
        return f"{prefix}-{next(self._numbers)}"

    def note(self, text: str) -> None:
        if TRANSCRIPT:
            with open(TRANSCRIPT, "a") as transcript:
                transcript.write(f"{text}\n")

    def _note(self, request: Request, version: int, answer: Response | None) -> None:
        if TRANSCRIPT:
            self.note(f"[{self._name}] v{version} {brief(request)}\n    -> {brief(answer)}")


def brief(value: Any) -> str:
    """A message without what holds its default, in the order of its definition."""
    if isinstance(value, list):
        return f"[{', '.join(brief(item) for item in value)}]"
    if not isinstance(value, Struct):
        return repr(value)
    shown = []
    for field in fields_of(type(value)):
        held = getattr(value, field.name)
        default = field.default_factory() if field.default_factory else field.default
        if held != default or field.name == "error_code":
            shown.append(f"{field.name}={brief(held)}")
    return f"{type(value).__name__}({', '.join(shown)})"


@pytest.fixture
def both(apache_kafka: reference.ApacheKafka, request: pytest.FixtureRequest) -> Iterator[Both]:
    kafka = Side("Apache Kafka", apache_kafka)
    ours = None if TRANSCRIPT else Side("Barnabas", request.getfixturevalue("barnabas_node"))
    name = f"{Path(str(request.node.path)).stem}::{request.node.name}"
    asked = Both(kafka, ours, name)
    yield asked
    for side in asked.sides:
        side.close()
