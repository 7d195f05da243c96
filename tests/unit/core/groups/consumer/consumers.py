"""Consumers of the consumer protocol on a stage, and a cluster made up of names and numbers."""

from __future__ import annotations

from typing import Any

from barnabas.core.coordinator.promise import Promise
from barnabas.core.groups.consumer.decide import Asker
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.metadata.state import MetadataImage, PartitionState, TopicState
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.wire.uuids import Uuid
from tests.unit.core.groups.stage import Stage

ASKER = Asker("client", "/host")


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"_"))


def cluster(**partitions: int) -> MetadataImage:
    image = MetadataImage(offset=10)
    for name, count in partitions.items():
        grow(image, name, count)
    return image


def grow(image: MetadataImage, name: str, count: int) -> None:
    topic = image.topics.setdefault(name, TopicState(name, topic_id(name)))
    image.topic_names[topic.topic_id] = name
    for index in range(len(topic.partitions), count):
        topic.partitions[index] = PartitionState(
            topic_id=topic.topic_id,
            topic=name,
            index=index,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )


def beat(stage: Stage, member_id: str, epoch: int, **fields: Any) -> Promise[ConsumerGroupHeartbeatResponse]:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    return stage.run(lambda shard: shard.members.consumer_heartbeat(request, ASKER))


def join(stage: Stage, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    given: dict[str, Any] = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], **fields}
    if topics:
        given["subscribed_topic_names"] = list(topics)
    return beat(stage, member_id, 0, **given).result()


def owned(**partitions: list[int]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id(name), partitions=each) for name, each in partitions.items()]


def group_of(stage: Stage) -> ConsumerGroup:
    found = stage.shard.groups.get("g")
    assert isinstance(found, ConsumerGroup)
    return found


def picture(stage: Stage) -> dict[str, Any]:
    """Everything that records say about the groups of a stage."""
    shown: dict[str, Any] = {}
    for name, group in stage.shard.groups.items():
        if isinstance(group, ConsumerGroup):
            shown[name] = {
                "epochs": group.epochs,
                "members": dict(group.members.items()),
                "targets": {key: dict(value) for key, value in group.targets.items()},
                "static": dict(group.static_members.items()),
                "topics": dict(group.topics.items()),
                "regexes": dict(group.regexes.items()),
                "resolved": dict(group.resolved.items()),
                "held": dict(group._held.items()),
            }
        else:
            shown[name] = "classic"
    return shown


class Consumer:
    """One client; what it believes. It gives partitions back a heartbeat after it is told to, and says everything again
    when it has missed an answer."""

    def __init__(self, stage: Stage, name: str, topics: list[str], instance: str | None) -> None:
        self.stage = stage
        self.name = name
        self.topics = topics
        self.instance = instance
        self.lives = 0
        self.forget()

    def forget(self) -> None:
        self.lives += 1
        self.id = f"{self.name}-{self.lives}"
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.missed_an_answer = False

    def step(self) -> None:
        fields: dict[str, Any] = {"topic_partitions": self.owned, "instance_id": self.instance}
        if self.epoch == 0:
            self.owned = fields["topic_partitions"] = []
        if self.epoch == 0 or self.missed_an_answer:
            fields |= {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": self.topics}
        self.react(beat(self.stage, self.id, self.epoch, **fields))

    def react(self, promise: Promise[ConsumerGroupHeartbeatResponse]) -> None:
        self.missed_an_answer = not promise.is_done or promise.error is not None
        if promise.error is not None:
            if promise.error.code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.UNRELEASED_INSTANCE_ID):
                self.forget()
        elif promise.is_done:
            response = promise.result()
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = response.assignment.topic_partitions

    def leave(self) -> None:
        if self.epoch > 0:
            beat(self.stage, self.id, -1 if self.instance is None else -2, instance_id=self.instance)
        self.forget()
