"""A small cluster as an image, made by replaying the records that a controller would have written."""

from collections.abc import Callable, Sequence

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.records.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from barnabas.wire.uuids import Uuid

ClusterMaker = Callable[..., MetadataImage]


def identity(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def make_cluster(
    brokers: Sequence[int] = (1,),
    *,
    racks: dict[int, str] | None = None,
    fenced: Sequence[int] = (),
    leaving: Sequence[int] = (),
    topics: dict[str, list[list[int]]] | None = None,
    log_dirs: int = 1,
    level: int = 25,
) -> MetadataImage:
    """Topic number n has the id n, and broker b the directories b001, b002 ..."""
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
    for broker in brokers:
        image.replay(
            RegisterBrokerRecord(
                broker_id=broker,
                broker_epoch=broker,
                incarnation_id=identity(broker),
                end_points=[BrokerEndpoint(name="PLAINTEXT", host=f"host{broker}", port=9092)],
                features=[BrokerFeature(name="metadata.version", min_supported_version=25, max_supported_version=30)],
                rack=(racks or {}).get(broker),
                fenced=broker in fenced,
                in_controlled_shutdown=broker in leaving,
                log_dirs=[identity(broker * 1000 + number) for number in range(1, log_dirs + 1)],
            )
        )
    for number, (name, assignments) in enumerate((topics or {}).items(), 1):
        image.replay(TopicRecord(name=name, topic_id=identity(number)))
        for index, replicas in enumerate(assignments):
            image.replay(
                PartitionRecord(
                    topic_id=identity(number),
                    partition_id=index,
                    replicas=replicas,
                    isr=replicas,
                    leader=replicas[0],
                    leader_epoch=3,
                    partition_epoch=4,
                    directories=[identity(replica * 1000 + 1) for replica in replicas],
                )
            )
    return image


@pytest.fixture
def cluster() -> ClusterMaker:
    return make_cluster
