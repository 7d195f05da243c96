"""An image as the shortest list of records that replays into it, in the order of Kafka's image snapshots.

The level comes first, because it says how to read the rest. `kraft.version` and the voters are not in the list: they
are control records, written by whoever frames the snapshot file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.core.metadata.records import KRAFT_VERSION, METADATA_VERSION, MetadataError
from barnabas.core.metadata.state import BrokerState, ControllerState, MetadataImage, PartitionState
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record


def snapshot(image: MetadataImage) -> Iterator[Record]:
    """Lazily, so that a large image can be written in slices; the image must not change meanwhile."""
    if image.transaction is not None:
        raise MetadataError("an image within a transaction has no snapshot")
    yield from _features(image)
    yield from (_broker(broker) for broker in image.brokers.values())
    yield from (_controller(controller) for controller in image.controllers.values())
    for topic in image.topics.values():
        yield wire.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        yield from (_partition(topic.partitions[index]) for index in sorted(topic.partitions))
    for (resource_type, resource_name), entries in image.configs.items():
        for name, value in entries.items():
            yield wire.ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    for entity, limits in image.client_quotas.items():
        parts = [wire.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        yield from (wire.ClientQuotaRecord(entity=parts, key=key, value=value) for key, value in limits.items())
    if image.next_producer_id >= 0:
        yield wire.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.acls.values()
    yield from image.scram_credentials.values()
    yield from image.delegation_tokens.values()


def _features(image: MetadataImage) -> Iterator[Record]:
    if METADATA_VERSION in image.features:
        yield wire.FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.features[METADATA_VERSION])
    for name, level in image.features.items():
        if name not in (METADATA_VERSION, KRAFT_VERSION):
            yield wire.FeatureLevelRecord(name=name, feature_level=level)
    if image.zk_migration_state is not None:
        yield wire.ZkMigrationStateRecord(zk_migration_state=image.zk_migration_state)


def _broker(broker: BrokerState) -> Record:
    return wire.RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            wire.BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.endpoints.values()
        ],
        features=[
            wire.BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in _sorted(broker.features)
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
        cordoned_log_dirs=broker.cordoned_log_dirs,
    )


def _controller(controller: ControllerState) -> Record:
    return wire.RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            wire.ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in controller.endpoints.values()
        ],
        features=[
            wire.ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in _sorted(controller.features)
        ],
    )


def _sorted(features: dict[str, tuple[int, int]]) -> Iterable[tuple[str, tuple[int, int]]]:
    return sorted(features.items())


def _partition(partition: PartitionState) -> Record:
    return wire.PartitionRecord(
        partition_id=partition.index,
        topic_id=partition.topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=partition.directories,
        eligible_leader_replicas=partition.eligible_leader_replicas or None,
        last_known_elr=partition.last_known_elr or None,
    )
