"""The loader: committed records and snapshots become the image, and publishers act on the difference."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.core.metadata.difference import difference
from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

from ..scripted_raft import ScriptedRaft


def topic(name: str, *, topic_id: str = "", partitions: int = 1) -> list[Record]:
    identity = Uuid((topic_id or name).encode().ljust(16, b"."))
    return [
        wire.TopicRecord(name=name, topic_id=identity),
        *(
            wire.PartitionRecord(topic_id=identity, partition_id=index, replicas=[1], isr=[1], leader=1)
            for index in range(partitions)
        ),
    ]


class Stage:
    def __init__(self) -> None:
        self.raft = ScriptedRaft()
        self.faults: list[str] = []
        self.loader = MetadataLoader(MetadataImage(), self.faults.append)
        self.raft.register(self.loader)
        self.told: list[MetadataDelta] = []

    async def commit(self, *batches: list[Record]) -> None:
        self.raft.follow(2, self.raft.epoch + 1, *batches)
        await self.loader.reached(self.raft.high_watermark - 1)


async def test_publishers_act_one_after_the_other_in_their_order() -> None:
    stage, events = Stage(), []

    async def slowly(delta: MetadataDelta) -> None:
        events.append("begun")
        await asyncio.sleep(0)
        events.append("done")

    stage.loader.add_publisher("first", slowly)
    stage.loader.add_publisher("second", lambda delta: events.append(f"{len(delta.created_topics)} topics"))
    await stage.commit(topic("orders"))
    assert events == ["begun", "done", "1 topics"]


async def test_the_quorum_does_not_wait_for_publishers_and_what_came_meanwhile_is_told_at_once() -> None:
    stage, gate = Stage(), asyncio.Event()
    deltas: list[set[str]] = []

    async def slowly(delta: MetadataDelta) -> None:
        await gate.wait()
        deltas.append({each.name for each in delta.created_topics.values()})

    stage.loader.add_publisher("slow one", slowly)
    stage.raft.follow(2, 1, topic("a"))
    await asyncio.sleep(0)
    stage.raft.follow(2, 2, topic("b"), topic("c"))
    assert stage.loader.published_offset == -1
    gate.set()
    await stage.loader.reached(stage.raft.high_watermark - 1)
    assert deltas == [{"a"}, {"b", "c"}]


async def test_a_publisher_that_fails_stops_the_node_with_a_sentence() -> None:
    stage = Stage()

    def broken(delta: MetadataDelta) -> None:
        raise RuntimeError("no such thing")

    stage.loader.add_publisher("partitions", broken)
    stage.loader.add_publisher("others", stage.told.append)
    with pytest.raises(KafkaError) as caught:
        await stage.commit(topic("orders"))
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.faults == [
        "Committed metadata up to offset 1 could not be applied by the partitions: RuntimeError('no such thing')"
    ]
    assert stage.told == []
    with pytest.raises(KafkaError):
        await stage.commit(topic("more"))
    assert "more" not in stage.loader.image.topics, "nothing is served that was not applied"


async def test_a_record_that_cannot_be_replayed_stops_the_node() -> None:
    stage = Stage()
    with pytest.raises(KafkaError):
        await stage.commit([wire.RemoveTopicRecord(topic_id=Uuid(b"nobody-knows-it."))])
    assert len(stage.faults) == 1
    assert "could not be replayed" in stage.faults[0]


async def test_a_snapshot_replaces_the_image_and_publishers_are_told_the_difference() -> None:
    stage = Stage()
    await stage.commit(topic("kept"), topic("deleted"), topic("other", topic_id="old"), topic("grown"))
    before = stage.loader.image
    stage.loader.add_publisher("partitions", stage.told.append)
    records = [*topic("kept"), *topic("grown", partitions=3), *topic("other", topic_id="new"), *topic("new-one")]
    stage.raft.install(100, 7, records)
    await stage.loader.reached(99)
    image = stage.loader.image
    assert image is not before
    assert (image.offset, image.epoch, set(image.topics)) == (99, 7, {"kept", "grown", "other", "new-one"})
    [delta] = stage.told
    assert {each.name for each in delta.deleted_topics} == {"deleted", "other"}
    assert {each.name for each in delta.created_topics.values()} == {"other", "new-one"}
    assert {(each.topic, each.index) for each in delta.partitions} == {
        ("grown", 1),
        ("grown", 2),
        ("other", 0),
        ("new-one", 0),
    }
    await stage.commit(topic("behind-it"))
    assert stage.loader.image.offset == 101


def test_the_difference_of_two_images_is_the_delta_of_the_records_between_them() -> None:
    before = MetadataImage()
    before.replay_all(
        [*topic("a"), *topic("b"), wire.ConfigRecord(resource_type=2, resource_name="a", name="x", value="1")]
    )
    after = before.copy()
    records = [
        *topic("c"),
        wire.RemoveTopicRecord(topic_id=before.topics["b"].topic_id),
        wire.PartitionChangeRecord(topic_id=before.topics["a"].topic_id, partition_id=0, leader=-1),
        wire.ConfigRecord(resource_type=2, resource_name="a", name="x", value=None),
        wire.ConfigRecord(resource_type=4, resource_name="", name="y", value="2"),
        wire.FeatureLevelRecord(name="metadata.version", feature_level=25),
        wire.RegisterBrokerRecord(broker_id=1),
        wire.RegisterControllerRecord(controller_id=1),
        wire.ClientQuotaRecord(entity=[wire.EntityData(entity_type="user", entity_name="u")], key="k", value=1.0),
        wire.ProducerIdsRecord(next_producer_id=1000),
    ]
    expected = MetadataDelta()
    after.replay_all(records, expected)
    assert difference(before, after) == expected
    assert difference(after, after.copy()) == MetadataDelta()
