"""Records of the cluster's metadata log."""

from __future__ import annotations

from barnabas.wire.schema import Float64, Int8, Int16, Int32, Int64, Record, Struct, UInt16, field, since
from barnabas.wire.uuids import ZERO_UUID, Uuid


class RegisterBrokerRecord(Record, key=0, versions="0-4", flexible="0+"):
    broker_id: Int32 = 0
    is_migrating_zk_broker: bool = since(2, default=False)
    incarnation_id: Uuid = ZERO_UUID
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = field(default_factory=list)
    features: list[BrokerFeature] = field(default_factory=list)
    rack: str | None = ""
    fenced: bool = True
    in_controlled_shutdown: bool = since(1, default=False)
    log_dirs: list[Uuid] = since(3, default_factory=list, tag=0)
    cordoned_log_dirs: list[Uuid] | None = since(4, default=None, tag=1)


class BrokerEndpoint(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class UnregisterBrokerRecord(Record, key=1, versions="0", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class TopicRecord(Record, key=2, versions="0", flexible="0+"):
    name: str = ""
    topic_id: Uuid = ZERO_UUID


class PartitionRecord(Record, key=3, versions="0-2", flexible="0+"):
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: list[Int32] = field(default_factory=list)
    isr: list[Int32] = field(default_factory=list)
    removing_replicas: list[Int32] = field(default_factory=list)
    adding_replicas: list[Int32] = field(default_factory=list)
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(default=0, tag=0)
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: list[Uuid] = since(1, default_factory=list)
    eligible_leader_replicas: list[Int32] | None = since(2, default=None, tag=1)
    last_known_elr: list[Int32] | None = since(2, default=None, tag=2)


class ConfigRecord(Record, key=4, versions="0", flexible="0+"):
    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""
    value: str | None = ""


class PartitionChangeRecord(Record, key=5, versions="0-2", flexible="0+"):
    partition_id: Int32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: list[Int32] | None = field(default=None, tag=0)
    leader: Int32 = field(default=-2, tag=1)
    replicas: list[Int32] | None = field(default=None, tag=2)
    removing_replicas: list[Int32] | None = field(default=None, tag=3)
    adding_replicas: list[Int32] | None = field(default=None, tag=4)
    leader_recovery_state: Int8 = field(default=-1, tag=5)
    directories: list[Uuid] | None = since(1, default=None, tag=8)
    eligible_leader_replicas: list[Int32] | None = since(2, default=None, tag=6)
    last_known_elr: list[Int32] | None = since(2, default=None, tag=7)


class FenceBrokerRecord(Record, key=7, versions="0", flexible="0+"):
    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBrokerRecord(Record, key=8, versions="0", flexible="0+"):
    id: Int32 = 0
    epoch: Int64 = 0


class RemoveTopicRecord(Record, key=9, versions="0", flexible="0+"):
    topic_id: Uuid = ZERO_UUID


class DelegationTokenRecord(Record, key=10, versions="0", flexible="0+"):
    owner: str = ""
    requester: str = ""
    renewers: list[str] = field(default_factory=list)
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


class UserScramCredentialRecord(Record, key=11, versions="0", flexible="0+"):
    name: str = ""
    mechanism: Int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: Int32 = 0


class FeatureLevelRecord(Record, key=12, versions="0", flexible="0+"):
    name: str = ""
    feature_level: Int16 = 0


class ClientQuotaRecord(Record, key=14, versions="0", flexible="0+"):
    entity: list[EntityData] = field(default_factory=list)
    key: str = ""
    value: Float64 = 0.0
    remove: bool = False


class EntityData(Struct):
    entity_type: str = ""
    entity_name: str | None = ""


class ProducerIdsRecord(Record, key=15, versions="0", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class BrokerRegistrationChangeRecord(Record, key=17, versions="0-3", flexible="0+"):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Int8 = field(default=0, tag=0)
    in_controlled_shutdown: Int8 = since(1, default=0, tag=1)
    log_dirs: list[Uuid] = since(2, default_factory=list, tag=2)
    cordoned_log_dirs: list[Uuid] | None = since(3, default=None, tag=3)


class AccessControlEntryRecord(Record, key=18, versions="0", flexible="0+"):
    id: Uuid = ZERO_UUID
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntryRecord(Record, key=19, versions="0", flexible="0+"):
    id: Uuid = ZERO_UUID


class NoOpRecord(Record, key=20, versions="0", flexible="0+"):
    pass


class ZkMigrationStateRecord(Record, key=21, versions="0", flexible="0+"):
    zk_migration_state: Int8 = 0


class RemoveUserScramCredentialRecord(Record, key=22, versions="0", flexible="0+"):
    name: str = ""
    mechanism: Int8 = 0


class BeginTransactionRecord(Record, key=23, versions="0", flexible="0+"):
    name: str | None = field(default=None, tag=0)


class EndTransactionRecord(Record, key=24, versions="0", flexible="0+"):
    pass


class AbortTransactionRecord(Record, key=25, versions="0", flexible="0+"):
    reason: str | None = field(default=None, tag=0)


class RemoveDelegationTokenRecord(Record, key=26, versions="0", flexible="0+"):
    token_id: str = ""


class RegisterControllerRecord(Record, key=27, versions="0", flexible="0+"):
    controller_id: Int32 = 0
    incarnation_id: Uuid = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: list[ControllerEndpoint] = field(default_factory=list)
    features: list[ControllerFeature] = field(default_factory=list)


class ControllerEndpoint(Struct):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(Struct):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class ClearElrRecord(Record, key=28, versions="0", flexible="0+"):
    topic_name: str = ""
