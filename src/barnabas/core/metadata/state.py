"""The cluster image: what the records of the metadata log, replayed in order, say there is.

Theory. The metadata log is the only truth; an image is its prefix folded into dictionaries. The same `replay` runs
when a log is loaded, when a decision is tried on the working image and when it is committed, so all three agree.
A snapshot is the shortest list of records with the same image (`snapshot.py`): whatever a record says is kept, even
where no part of the node asks for it yet, because the log behind a snapshot is deleted.

Values (partitions, brokers, controllers) are never changed in place: a change replaces the value, so images may share
them and a reader may keep one. Only dictionaries belong to one image, and `copy` copies those.

Legal transitions
- A topic comes into being by TopicRecord, gets partitions by PartitionRecord, and goes by RemoveTopicRecord together
  with its configs. PartitionChangeRecord changes only the fields it names; each one adds 1 to the partition epoch, and
  each one that names a leader (even the same one, even none) adds 1 to the leader epoch.
- A broker is known by RegisterBrokerRecord, which replaces a former registration whole, until UnregisterBrokerRecord.
  Fencing, unfencing and changing it must name the epoch of the registration.
- BeginTransactionRecord opens a transaction unless one is open; records are then held back until EndTransactionRecord
  replays them all or AbortTransactionRecord drops them.
- Everything else sets or removes one entry. Level 0 removes a feature; a config without a value is removed.
Any other sequence is a `MetadataError`: that log was not written by a controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from barnabas.core.metadata.records import KRAFT_VERSION, METADATA_VERSION, MetadataError, UnsupportedMetadata
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.raft import KRaftVersionRecord
from barnabas.wire.schema import Record
from barnabas.wire.uuids import ZERO_UUID, Uuid

NO_LEADER = -1
NO_LEADER_CHANGE = -2
NO_RECOVERY_STATE_CHANGE = -1
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4

ConfigResource: TypeAlias = tuple[int, str]
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """Not changed once it is made: a change makes another. (Not frozen, which costs a start three times the time.)"""

    topic_id: Uuid
    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0
    directories: list[Uuid] = field(default_factory=list)
    adding_replicas: list[int] = field(default_factory=list)
    removing_replicas: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)

    def merge(self, change: wire.PartitionChangeRecord) -> PartitionState:
        merged = PartitionState(
            topic_id=self.topic_id,
            topic=self.topic,
            index=self.index,
            replicas=self.replicas,
            isr=self.isr,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            leader_recovery_state=self.leader_recovery_state,
            directories=self.directories,
            adding_replicas=self.adding_replicas,
            removing_replicas=self.removing_replicas,
            eligible_leader_replicas=self.eligible_leader_replicas,
            last_known_elr=self.last_known_elr,
        )
        merged.take(change)
        return merged

    def take(self, change: wire.PartitionChangeRecord) -> None:
        """Only for whoever has made this state and shown it to nobody yet."""
        self.partition_epoch += 1
        if change.leader != NO_LEADER_CHANGE:
            self.leader = change.leader
            self.leader_epoch += 1
        if change.isr is not None:
            self.isr = change.isr
        if change.replicas is not None or change.directories is not None:
            replicas = self.replicas if change.replicas is None else change.replicas
            directories = self.directories if change.directories is None else change.directories
            self.replicas, self.directories = replicas, _directories(directories, replicas)
        if change.leader_recovery_state != NO_RECOVERY_STATE_CHANGE:
            self.leader_recovery_state = change.leader_recovery_state
        if change.adding_replicas is not None:
            self.adding_replicas = change.adding_replicas
        if change.removing_replicas is not None:
            self.removing_replicas = change.removing_replicas
        if change.eligible_leader_replicas is not None:
            self.eligible_leader_replicas = change.eligible_leader_replicas
        if change.last_known_elr is not None:
            self.last_known_elr = change.last_known_elr


def partition_of(topic: TopicState, index: int, record: wire.PartitionRecord) -> PartitionState:
    """What the record says, as the partition `index` of `topic`."""
    return PartitionState(
        topic_id=topic.topic_id,
        topic=topic.name,
        index=index,
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=record.leader_recovery_state,
        directories=_directories(record.directories, record.replicas),
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas or [],
        last_known_elr=record.last_known_elr or [],
    )


def _directories(directories: list[Uuid], replicas: list[int]) -> list[Uuid]:
    """One per replica; where none is known yet, each replica is somewhere, unassigned."""
    if len(directories) == len(replicas):
        return directories
    if all(directory == ZERO_UUID for directory in directories):
        return [ZERO_UUID] * len(replicas)
    raise MetadataError(f"{len(replicas)} replicas have {len(directories)} directories")


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: Uuid
    partitions: dict[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    features: dict[str, tuple[int, int]] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = False
    in_controlled_shutdown: bool = False
    log_dirs: list[Uuid] = field(default_factory=list)
    cordoned_log_dirs: list[Uuid] | None = None
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    id: int
    incarnation_id: Uuid
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    features: dict[str, tuple[int, int]] = field(default_factory=dict)
    zk_migration_ready: bool = False


@dataclass(slots=True)
class MetadataDelta:
    """What a replay changed, as sets: a topic created and deleted within one delta leaves no trace."""

    changed_partitions: dict[tuple[Uuid, int], PartitionState] = field(default_factory=dict)
    created_topics: dict[Uuid, TopicState] = field(default_factory=dict)
    deleted_topics: list[TopicState] = field(default_factory=list)
    configs: set[ConfigResource] = field(default_factory=set)
    features_changed: bool = False
    brokers_changed: bool = False
    controllers_changed: bool = False
    quotas_changed: bool = False
    acls_changed: bool = False
    scram_changed: bool = False
    delegation_tokens_changed: bool = False
    producer_ids_changed: bool = False

    @property
    def partitions(self) -> list[PartitionState]:
        """Created or changed, each once, as it is at the end of the delta."""
        return list(self.changed_partitions.values())


@dataclass(slots=True)
class MetadataImage:
    topics: dict[str, TopicState] = field(default_factory=dict)
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    controllers: dict[int, ControllerState] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    acls: dict[Uuid, wire.AccessControlEntryRecord] = field(default_factory=dict)
    scram_credentials: dict[tuple[int, str], wire.UserScramCredentialRecord] = field(default_factory=dict)
    delegation_tokens: dict[str, wire.DelegationTokenRecord] = field(default_factory=dict)
    zk_migration_state: int | None = None
    next_producer_id: int = -1
    transaction: list[Record] | None = None
    offset: int = -1
    epoch: int = -1

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    def topic_by_id(self, topic_id: Uuid) -> TopicState | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def copy(self) -> MetadataImage:
        return replace(
            self,
            topics={
                name: TopicState(name, topic.topic_id, topic.partitions.copy()) for name, topic in self.topics.items()
            },
            topic_names=self.topic_names.copy(),
            brokers=self.brokers.copy(),
            controllers=self.controllers.copy(),
            features=self.features.copy(),
            configs={resource: entries.copy() for resource, entries in self.configs.items()},
            client_quotas={entity: limits.copy() for entity, limits in self.client_quotas.items()},
            acls=self.acls.copy(),
            scram_credentials=self.scram_credentials.copy(),
            delegation_tokens=self.delegation_tokens.copy(),
            transaction=None if self.transaction is None else self.transaction.copy(),
        )

    def replay(self, record: Record, delta: MetadataDelta | None = None) -> None:
        """Takes one record in; `delta`, if given, learns what it changed. Records must not be changed afterwards."""
        kind = type(record)
        if self.transaction is not None and kind not in _TRANSACTION_ENDS:
            if kind is wire.BeginTransactionRecord:
                raise MetadataError("a transaction begins within a transaction")
            self.transaction.append(record)
            return
        replay = _REPLAY.get(kind)
        if replay is None:
            raise UnsupportedMetadata(f"{kind.__name__} is not a record of the metadata log")
        replay(self, record, MetadataDelta() if delta is None else delta)

    def replay_all(self, records: Sequence[Record], delta: MetadataDelta | None = None) -> None:
        delta = MetadataDelta() if delta is None else delta
        for record in records:
            self.replay(record, delta)

    def _topic(self, record: wire.TopicRecord, delta: MetadataDelta) -> None:
        if record.name in self.topics or record.topic_id in self.topic_names:
            raise MetadataError(f"topic {record.name} ({record.topic_id}) is created although it exists")
        topic = TopicState(record.name, record.topic_id)
        self.topics[record.name] = delta.created_topics[record.topic_id] = topic
        self.topic_names[record.topic_id] = record.name

    def _topic_of(self, topic_id: Uuid) -> TopicState:
        name = self.topic_names.get(topic_id)
        if name is None:
            raise MetadataError(f"a record names the unknown topic id {topic_id}")
        return self.topics[name]

    def _partition(self, record: wire.PartitionRecord, delta: MetadataDelta) -> None:
        topic = self._topic_of(record.topic_id)
        self._put_partition(topic, partition_of(topic, record.partition_id, record), delta)

    def _partition_change(self, record: wire.PartitionChangeRecord, delta: MetadataDelta) -> None:
        topic = self._topic_of(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise MetadataError(f"partition {topic.name}-{record.partition_id} is changed although it does not exist")
        self._put_partition(topic, partition.merge(record), delta)

    def _put_partition(self, topic: TopicState, partition: PartitionState, delta: MetadataDelta) -> None:
        topic.partitions[partition.index] = partition
        delta.changed_partitions[partition.topic_id, partition.index] = partition

    def _remove_topic(self, record: wire.RemoveTopicRecord, delta: MetadataDelta) -> None:
        topic = self._topic_of(record.topic_id)
        del self.topics[topic.name], self.topic_names[topic.topic_id]
        if self.configs.pop((TOPIC_RESOURCE, topic.name), None) is not None:
            delta.configs.add((TOPIC_RESOURCE, topic.name))
        for index in topic.partitions:
            delta.changed_partitions.pop((topic.topic_id, index), None)
        if delta.created_topics.pop(topic.topic_id, None) is None:
            delta.deleted_topics.append(topic)

    def _clear_elr(self, record: wire.ClearElrRecord, delta: MetadataDelta) -> None:
        if record.topic_name and record.topic_name not in self.topics:
            raise MetadataError(f"eligible leaders are cleared of the unknown topic {record.topic_name}")
        for topic in [self.topics[record.topic_name]] if record.topic_name else list(self.topics.values()):
            for index, partition in list(topic.partitions.items()):
                if partition.eligible_leader_replicas or partition.last_known_elr:
                    clear = wire.PartitionChangeRecord(
                        topic_id=topic.topic_id, partition_id=index, eligible_leader_replicas=[], last_known_elr=[]
                    )
                    self._put_partition(topic, partition.merge(clear), delta)

    def _config(self, record: wire.ConfigRecord, delta: MetadataDelta) -> None:
        resource = (record.resource_type, record.resource_name)
        delta.configs.add(resource)
        _set_or_remove(self.configs, resource, record.name, record.value)

    def _register_broker(self, record: wire.RegisterBrokerRecord, delta: MetadataDelta) -> None:
        delta.brokers_changed = True
        self.brokers[record.broker_id] = BrokerState(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_dirs=record.log_dirs,
            cordoned_log_dirs=record.cordoned_log_dirs,
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def _broker(self, broker_id: int, epoch: int) -> BrokerState:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"a record names broker {broker_id} in epoch {epoch}, which is not registered")
        return broker

    def _unregister_broker(self, record: wire.UnregisterBrokerRecord, delta: MetadataDelta) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        delta.brokers_changed = True
        del self.brokers[record.broker_id]

    def _fence_broker(self, record: wire.FenceBrokerRecord, delta: MetadataDelta) -> None:
        delta.brokers_changed = True
        self.brokers[record.id] = replace(self._broker(record.id, record.epoch), fenced=True)

    def _unfence_broker(self, record: wire.UnfenceBrokerRecord, delta: MetadataDelta) -> None:
        delta.brokers_changed = True
        self.brokers[record.id] = replace(self._broker(record.id, record.epoch), fenced=False)

    def _change_broker(self, record: wire.BrokerRegistrationChangeRecord, delta: MetadataDelta) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise UnsupportedMetadata(f"broker {broker.id} is changed in a way that is unknown")
        cordoned = record.cordoned_log_dirs
        delta.brokers_changed = True
        self.brokers[broker.id] = replace(
            broker,
            fenced=record.fenced > 0 if record.fenced else broker.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown > 0 or broker.in_controlled_shutdown,
            log_dirs=record.log_dirs or broker.log_dirs,
            cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else cordoned,
        )

    def _register_controller(self, record: wire.RegisterControllerRecord, delta: MetadataDelta) -> None:
        delta.controllers_changed = True
        self.controllers[record.controller_id] = ControllerState(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    def _feature_level(self, record: wire.FeatureLevelRecord, delta: MetadataDelta) -> None:
        self._set_feature(record.name, record.feature_level, delta)

    def _kraft_version(self, record: KRaftVersionRecord, delta: MetadataDelta) -> None:
        self._set_feature(KRAFT_VERSION, record.k_raft_version, delta)

    def _set_feature(self, name: str, level: int, delta: MetadataDelta) -> None:
        delta.features_changed = True
        if level == 0:
            self.features.pop(name, None)
        else:
            self.features[name] = level

    def _producer_ids(self, record: wire.ProducerIdsRecord, delta: MetadataDelta) -> None:
        delta.producer_ids_changed = True
        self.next_producer_id = record.next_producer_id

    def _client_quota(self, record: wire.ClientQuotaRecord, delta: MetadataDelta) -> None:
        delta.quotas_changed = True
        entity = tuple(
            sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0])
        )
        _set_or_remove(self.client_quotas, entity, record.key, None if record.remove else record.value)

    def _acl(self, record: wire.AccessControlEntryRecord, delta: MetadataDelta) -> None:
        delta.acls_changed = True
        self.acls[record.id] = record

    def _remove_acl(self, record: wire.RemoveAccessControlEntryRecord, delta: MetadataDelta) -> None:
        delta.acls_changed = True
        if self.acls.pop(record.id, None) is None:
            raise MetadataError(f"the access control entry {record.id} is removed although it does not exist")

    def _scram(self, record: wire.UserScramCredentialRecord, delta: MetadataDelta) -> None:
        delta.scram_changed = True
        self.scram_credentials[record.mechanism, record.name] = record

    def _remove_scram(self, record: wire.RemoveUserScramCredentialRecord, delta: MetadataDelta) -> None:
        delta.scram_changed = True
        self.scram_credentials.pop((record.mechanism, record.name), None)

    def _delegation_token(self, record: wire.DelegationTokenRecord, delta: MetadataDelta) -> None:
        delta.delegation_tokens_changed = True
        self.delegation_tokens[record.token_id] = record

    def _remove_delegation_token(self, record: wire.RemoveDelegationTokenRecord, delta: MetadataDelta) -> None:
        delta.delegation_tokens_changed = True
        self.delegation_tokens.pop(record.token_id, None)

    def _zk_migration_state(self, record: wire.ZkMigrationStateRecord, delta: MetadataDelta) -> None:
        self.zk_migration_state = record.zk_migration_state

    def _no_op(self, record: wire.NoOpRecord, delta: MetadataDelta) -> None:
        pass

    def _begin_transaction(self, record: wire.BeginTransactionRecord, delta: MetadataDelta) -> None:
        self.transaction = []

    def _end_transaction(self, record: wire.EndTransactionRecord, delta: MetadataDelta) -> None:
        if self.transaction is None:
            raise MetadataError("a transaction ends that never began")
        held, self.transaction = self.transaction, None
        self.replay_all(held, delta)

    def _abort_transaction(self, record: wire.AbortTransactionRecord, delta: MetadataDelta) -> None:
        if self.transaction is None:
            raise MetadataError("a transaction is aborted that never began")
        self.transaction = None


def _endpoints(endpoints: Sequence[wire.BrokerEndpoint | wire.ControllerEndpoint]) -> dict[str, Endpoint]:
    return {each.name: Endpoint(each.name, each.host, each.port, each.security_protocol) for each in endpoints}


def _features(features: Sequence[wire.BrokerFeature | wire.ControllerFeature]) -> dict[str, tuple[int, int]]:
    return {each.name: (each.min_supported_version, each.max_supported_version) for each in features}


def _set_or_remove(table: dict[Any, dict[str, Any]], key: Any, name: str, value: Any) -> None:
    if value is not None:
        table.setdefault(key, {})[name] = value
    elif key in table:
        table[key].pop(name, None)
        if not table[key]:
            del table[key]


_TRANSACTION_ENDS = (wire.EndTransactionRecord, wire.AbortTransactionRecord)
_REPLAY: dict[type[Record], Callable[[MetadataImage, Any, MetadataDelta], None]] = {
    wire.RegisterBrokerRecord: MetadataImage._register_broker,
    wire.UnregisterBrokerRecord: MetadataImage._unregister_broker,
    wire.TopicRecord: MetadataImage._topic,
    wire.PartitionRecord: MetadataImage._partition,
    wire.ConfigRecord: MetadataImage._config,
    wire.PartitionChangeRecord: MetadataImage._partition_change,
    wire.FenceBrokerRecord: MetadataImage._fence_broker,
    wire.UnfenceBrokerRecord: MetadataImage._unfence_broker,
    wire.RemoveTopicRecord: MetadataImage._remove_topic,
    wire.DelegationTokenRecord: MetadataImage._delegation_token,
    wire.UserScramCredentialRecord: MetadataImage._scram,
    wire.FeatureLevelRecord: MetadataImage._feature_level,
    wire.ClientQuotaRecord: MetadataImage._client_quota,
    wire.ProducerIdsRecord: MetadataImage._producer_ids,
    wire.BrokerRegistrationChangeRecord: MetadataImage._change_broker,
    wire.AccessControlEntryRecord: MetadataImage._acl,
    wire.RemoveAccessControlEntryRecord: MetadataImage._remove_acl,
    wire.NoOpRecord: MetadataImage._no_op,
    wire.ZkMigrationStateRecord: MetadataImage._zk_migration_state,
    wire.RemoveUserScramCredentialRecord: MetadataImage._remove_scram,
    wire.BeginTransactionRecord: MetadataImage._begin_transaction,
    wire.EndTransactionRecord: MetadataImage._end_transaction,
    wire.AbortTransactionRecord: MetadataImage._abort_transaction,
    wire.RemoveDelegationTokenRecord: MetadataImage._remove_delegation_token,
    wire.RegisterControllerRecord: MetadataImage._register_controller,
    wire.ClearElrRecord: MetadataImage._clear_elr,
    KRaftVersionRecord: MetadataImage._kraft_version,
}
