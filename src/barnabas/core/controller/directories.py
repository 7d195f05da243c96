"""In which of a broker's log directories a replica lies, as far as the metadata says."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.core.decision import Decision
from barnabas.core.metadata.state import NO_LEADER, BrokerState, MetadataImage, PartitionState
from barnabas.wire.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid

UNASSIGNED = ZERO_UUID
LOST = Uuid(15 * b"\0" + b"\1")
MIGRATING = Uuid(15 * b"\0" + b"\2")


def default_directory(broker: BrokerState) -> Uuid:
    """A broker with one directory has no choice; one with several chooses and tells the controller later."""
    if not broker.log_dirs:
        return MIGRATING
    return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED


def is_online(broker: BrokerState, directory: Uuid) -> bool:
    if directory in (UNASSIGNED, MIGRATING) or not broker.log_dirs:
        return directory != LOST
    return directory in broker.log_dirs


def accepts_replicas(broker: BrokerState) -> bool:
    """False while all directories of the broker are cordoned off for new replicas."""
    cordoned = broker.cordoned_log_dirs
    return not cordoned or any(directory not in cordoned for directory in broker.log_dirs)


def is_unassigned(partition: PartitionState, broker_id: int) -> bool:
    """Whether the broker holds a replica and has not told where."""
    directories = partition.directories or [UNASSIGNED] * len(partition.replicas)
    return (broker_id, UNASSIGNED) in zip(partition.replicas, directories, strict=True)


def assign(
    image: MetadataImage, broker_id: int, chosen: Mapping[tuple[Uuid, int], Uuid], *, moved: bool = False
) -> Decision[None]:
    """A broker tells in which directory each of these replicas, named by topic id and partition, lies.

    Who was told before is told again only of replicas that have `moved`.
    """
    records = []
    for (topic_id, index), directory in chosen.items():
        topic = image.topic_by_id(topic_id)
        partition = topic.partitions.get(index) if topic else None
        if partition is None or broker_id not in partition.replicas:
            continue
        if is_unassigned(partition, broker_id) or (moved and directory not in partition.directories):
            known = partition.directories or [UNASSIGNED] * len(partition.replicas)
            told = [
                directory if replica == broker_id else of_other
                for replica, of_other in zip(partition.replicas, known, strict=True)
            ]
            records.append(PartitionChangeRecord(topic_id=topic_id, partition_id=index, directories=told))
    return Decision(records, None)


def lose(image: MetadataImage, broker_id: int, directory: Uuid) -> Decision[None]:
    """A directory of the broker has failed: partitions that it alone could serve from there have no leader.

    Its next registration, with the directory, takes them up again.
    """
    broker = image.brokers.get(broker_id)
    left = [each for each in broker.log_dirs if each != directory] if broker is not None else []
    if broker is None or not left or len(left) == len(broker.log_dirs):
        return Decision([], None)
    records: list[Record] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=left)
    ]
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            placed = zip(partition.replicas, partition.directories, strict=False)
            if partition.leader == broker_id and partition.isr == [broker_id] and (broker_id, directory) in placed:
                records.append(
                    PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition.index, leader=NO_LEADER)
                )
    return Decision(records, None)
