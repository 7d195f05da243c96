"""In which of a broker's log directories a replica lies, as far as the metadata says."""

from __future__ import annotations

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import NO_LEADER, BrokerState, MetadataImage, PartitionState
from barnabas.wire.records.metadata import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid

# Ids that stand for no directory; the first hundred ids are reserved for such.
MIGRATING = ZERO_UUID  # some directory that the broker has not told
UNASSIGNED = Uuid(15 * b"\0" + b"\1")  # the broker chooses one and tells it
LOST = Uuid(15 * b"\0" + b"\2")
RESERVED_MAX = 100


def is_reserved(directory: Uuid) -> bool:
    return int.from_bytes(bytes(directory), "big") < RESERVED_MAX


def directory_of(partition: PartitionState, replica: int) -> Uuid:
    """Where the metadata says that this replica lies."""
    if replica not in partition.replicas or not partition.directories:
        return MIGRATING
    return partition.directories[partition.replicas.index(replica)]


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
    return broker_id in partition.replicas and directory_of(partition, broker_id) in (UNASSIGNED, MIGRATING)


def lose(image: MetadataImage, broker_id: int, directory: Uuid) -> ControllerDecision[None]:
    """A directory of the broker has failed: partitions that it alone could serve from there have no leader.

    Its next registration, with the directory, takes them up again.
    """
    broker = image.brokers.get(broker_id)
    left = [each for each in broker.log_dirs if each != directory] if broker is not None else []
    if broker is None or not left or len(left) == len(broker.log_dirs):
        return ControllerDecision([], None)
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
    return ControllerDecision(records, None)
