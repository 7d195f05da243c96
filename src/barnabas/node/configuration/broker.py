"""A broker's configuration: what was given, what was changed while it ran, and Kafka's defaults beneath.

Four layers, the strongest first: the keys set for this broker while it runs, those set for all brokers, those it was
started with, and the defaults. `value` and the attributes look through them in this order.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from barnabas.node.configuration.definition import READ_ONLY, ConfigError, Definition, Value
from barnabas.node.configuration.definitions import BROKER
from barnabas.node.configuration.given import completed, warnings_about
from barnabas.node.configuration.listeners import (
    ListenerEndpoint,
    SecurityProtocol,
    Voter,
    default_protocols,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from barnabas.node.configuration.rules import check_together
from barnabas.wire.uuids import Uuid

NOTHING: Mapping[str, str] = MappingProxyType({})


class PlainKeys:
    """Keys the node reads as they are: the attribute is the key with underscores for dots."""

    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    barnabas_answer_max_bytes: int
    barnabas_audit_allowed: bool
    barnabas_audit_topic: str
    barnabas_fetch_session_max_partitions: int
    barnabas_produce_validation: str
    barnabas_request_max_elements: int
    broker_heartbeat_interval_ms: int
    broker_rack: str | None
    broker_session_timeout_ms: int
    compression_type: str
    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    controlled_shutdown_enable: bool
    controller_quorum_append_linger_ms: int
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    default_replication_factor: int
    delete_topic_enable: bool
    fetch_max_bytes: int
    leader_imbalance_check_interval_seconds: int
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    group_share_assignment_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_partition_max_record_locks: int
    group_share_persister_class_name: str
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_size: int
    group_streams_num_standby_replicas: int
    group_streams_session_timeout_ms: int
    initial_broker_registration_timeout_ms: int
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_dir_failure_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    log_segment_delete_delay_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    message_max_bytes: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_idle_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    min_insync_replicas: int
    num_partitions: int
    num_recovery_threads_per_data_dir: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    num_replica_alter_log_dirs_threads: int | None
    num_replica_fetchers: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    producer_id_expiration_check_interval_ms: int
    producer_id_expiration_ms: int
    queued_max_request_bytes: int
    queued_max_requests: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    request_timeout_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_write_timeout_ms: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transactional_id_expiration_ms: int
    unclean_leader_election_enable: bool
    unclean_leader_election_interval_ms: int


class BrokerConfig(PlainKeys):
    node_id: int
    process_roles: frozenset[str]
    listener_security_protocol_map: dict[str, SecurityProtocol]
    listeners: tuple[ListenerEndpoint, ...]
    controller_listener_names: tuple[str, ...]
    advertised_listeners: tuple[ListenerEndpoint, ...]
    advertised_controller_listeners: tuple[ListenerEndpoint, ...]
    inter_broker_listener_name: str
    controller_quorum_voters: tuple[Voter, ...]
    log_dirs: tuple[Path, ...]
    metadata_log_dir: Path

    def __init__(
        self,
        properties: Mapping[str, str],
        *,
        dynamic_default: Mapping[str, str] = NOTHING,
        dynamic_broker: Mapping[str, str] = NOTHING,
        warnings: tuple[str, ...] = (),
        cluster_id: str | None = None,
    ) -> None:
        self.properties = properties
        self.dynamic_default = dynamic_default
        self.dynamic_broker = dynamic_broker
        self.warnings = warnings
        self.cluster_id = cluster_id
        self._dynamic_as_set = (dict(dynamic_default), dict(dynamic_broker))
        self._values: dict[str, Value] = {}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, cluster_id: str | None = None) -> BrokerConfig:
        """Of what a file, variables and flags say together. Raises ConfigError with a sentence if it cannot be."""
        if cluster_id is not None:
            _check_cluster_id(cluster_id)
        given, about = completed(properties)
        config = cls(given, warnings=(*about, *warnings_about(given)), cluster_id=cluster_id)
        config.check()
        return config

    if not TYPE_CHECKING:  # a type checker shall know the annotated names and no others

        def __getattr__(self, name):
            if name not in PlainKeys.__annotations__:
                raise AttributeError(f"BrokerConfig has no attribute {name}")
            value = self.__dict__[name] = self.value(name.replace("_", "."))
            return value

    def value(self, key: str) -> Value:
        """The value of any key of Kafka's; KeyError if it is none."""
        if key not in self._values:
            text = self.text(key)
            definition = BROKER[key]
            self._values[key] = definition.default if text is None else definition.parse(text)
        return self._values[key]

    def text(self, key: str) -> str | None:
        """What was given for the key, in the strongest layer; None if nothing was."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.properties):
            if key in layer:
                return layer[key]
        return None

    def is_given(self, key: str) -> bool:
        return self.text(key) is not None

    def check(self) -> None:
        """Each value by itself, then the listeners, then what must fit together."""
        for key in {**self.properties, **self.dynamic_default, **self.dynamic_broker}:
            if key in BROKER:
                self.value(key)
        self._read_identity()
        self._read_listeners()
        self._read_directories()
        check_together(self)

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """With other dynamic layers. They were checked when they were set; what no longer fits is left out."""
        if self._dynamic_as_set == (default, broker):
            return self
        changed = self._copy(dynamic_default=_usable(default), dynamic_broker=_usable(broker))
        changed._dynamic_as_set = (dict(default), dict(broker))
        changed.__dict__.update({name: self.__dict__[name] for name in BrokerConfig.__annotations__})
        return changed

    def with_bound_ports(
        self, ports: Mapping[str, int], canonical_host: Callable[[], str] | None = None
    ) -> BrokerConfig:
        """With the ports the listeners were really given, and the machine's own name where none was given."""
        bound = self._copy(dynamic_default=self.dynamic_default, dynamic_broker=self.dynamic_broker)
        bound.__dict__.update({name: self.__dict__[name] for name in BrokerConfig.__annotations__})
        bound.listeners = tuple(_with_port(endpoint, ports) for endpoint in self.listeners)
        find_host = canonical_host or _canonical_host
        for name in ("advertised_listeners", "advertised_controller_listeners"):
            endpoints = (_with_port(endpoint, ports) for endpoint in getattr(self, name))
            setattr(bound, name, tuple(e if e.host else e._replace(host=find_host()) for e in endpoints))
        return bound

    @property
    def broker_listeners(self) -> tuple[ListenerEndpoint, ...]:
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[ListenerEndpoint, ...]:
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    def _copy(self, *, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> BrokerConfig:
        return BrokerConfig(
            self.properties,
            dynamic_default=dynamic_default,
            dynamic_broker=dynamic_broker,
            warnings=self.warnings,
            cluster_id=self.cluster_id,
        )

    def _list(self, key: str) -> tuple[str, ...]:
        value = self.value(key)
        return value if isinstance(value, tuple) else ()

    def _read_identity(self) -> None:
        node_id = self.value("node.id")
        assert isinstance(node_id, int)
        if self.value("broker.id") != node_id:
            raise ConfigError(f"node.id={node_id} and broker.id={self.value('broker.id')} must be the same number.")
        self.node_id = node_id
        self.process_roles = frozenset(self._list("process.roles"))
        self.controller_quorum_voters = voters = parse_voters(self._list("controller.quorum.voters"))
        voter_ids = [voter.id for voter in voters]
        if voters and "controller" in self.process_roles and node_id not in voter_ids:
            raise ConfigError(f"controller.quorum.voters must contain node {node_id}, because it is a controller.")
        if "controller" not in self.process_roles and node_id in voter_ids:
            raise ConfigError(f"controller.quorum.voters must not contain node {node_id}, because it is only a broker.")

    def _read_listeners(self) -> None:
        names = tuple(name.upper() for name in self._list("controller.listener.names"))
        listeners = self._list("listeners")
        protocols = parse_protocol_map(str(self.value("listener.security.protocol.map")))
        if not self.is_given("listener.security.protocol.map"):
            protocols = default_protocols(protocols, names, listeners)
        self.controller_listener_names = names
        self.listener_security_protocol_map = protocols
        self.listeners = parse_listeners("listeners", listeners, protocols)
        advertised = self.listeners
        if self.is_given("advertised.listeners"):
            given = self._list("advertised.listeners")
            advertised = parse_listeners("advertised.listeners", given, protocols, distinct_ports=False)
        self.advertised_listeners = tuple(each for each in advertised if each.name not in names)
        own = {each.name: each for each in advertised} if self.is_given("advertised.listeners") else {}
        self.advertised_controller_listeners = tuple(
            own.get(each.name) or self._as_voter(each) for each in self.controller_listeners
        )
        self._check_listeners()

    def _as_voter(self, listener: ListenerEndpoint) -> ListenerEndpoint:
        """A controller that listens everywhere is found where the voters' list says it is."""
        for voter in self.controller_quorum_voters:
            if voter.id == self.node_id and listener.host in ("", "0.0.0.0"):
                return listener._replace(host=voter.host)
        return listener

    def _check_listeners(self) -> None:
        bound = {endpoint.name for endpoint in self.listeners}
        if "controller" in self.process_roles:
            for name in self.controller_listener_names:
                if name not in bound:
                    raise ConfigError(f"controller.listener.names has {name}, which is not among the listeners.")
        elif self.controller_listeners:
            raise ConfigError("controller.listener.names must not name a listener of a node that is only a broker.")
        self.inter_broker_listener_name = ""
        if "broker" in self.process_roles:
            self._check_advertised(bound)
        elif self.broker_listeners:
            raise ConfigError(
                f"The listener {self.broker_listeners[0].name} is none of a node that is only a controller."
            )
        for endpoint in (*self.advertised_listeners, *self.advertised_controller_listeners):
            if endpoint.host in ("0.0.0.0", "::"):
                raise ConfigError(
                    f"advertised.listeners must not be {endpoint}: nobody can connect to {endpoint.host}, so give a "
                    "name or address that clients can reach."
                )

    def _check_advertised(self, bound: set[str]) -> None:
        advertised = [endpoint.name for endpoint in self.advertised_listeners]
        if not advertised:
            raise ConfigError("A broker needs a listener that is not in controller.listener.names.")
        for name in advertised:
            if name not in bound:
                raise ConfigError(f"advertised.listeners has {name}, which is not among the listeners.")
        name = self._inter_broker_name(advertised)
        if name not in advertised:
            raise ConfigError(
                f"inter.broker.listener.name={name} cannot be used: it must be one of {', '.join(advertised)}."
            )
        self.inter_broker_listener_name = name

    def _inter_broker_name(self, advertised: list[str]) -> str:
        name = self.text("inter.broker.listener.name")
        protocol = self.text("security.inter.broker.protocol")
        if name is not None and protocol is not None:
            raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol can be given.")
        if name is not None:
            return name.strip().upper()
        if protocol is None and len(self.broker_listeners) == 1:
            return advertised[0]
        return str(self.value("security.inter.broker.protocol"))

    def _read_directories(self) -> None:
        paths = self._list("log.dirs") if self.is_given("log.dirs") else self._list("log.dir")
        if not paths:
            raise ConfigError("log.dirs must name at least one directory.")
        self.log_dirs = tuple(map(Path, paths))
        metadata = self.value("metadata.log.dir")
        self.metadata_log_dir = Path(str(metadata)) if metadata else self.log_dirs[0]


def _check_cluster_id(cluster_id: str) -> None:
    try:
        Uuid.parse(cluster_id)
    except ValueError:
        raise ConfigError(f"CLUSTER_ID={cluster_id} is not an id: 22 characters of URL-safe base64 are.") from None


def _with_port(endpoint: ListenerEndpoint, ports: Mapping[str, int]) -> ListenerEndpoint:
    return endpoint if endpoint.port else endpoint._replace(port=ports.get(endpoint.name, 0))


def _canonical_host() -> str:
    return socket.getfqdn() or socket.gethostname()


def _usable(layer: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in layer.items() if key not in BROKER or _fits(BROKER[key], text)}


def _fits(definition: Definition, text: str) -> bool:
    if definition.update is READ_ONLY:
        return False
    try:
        definition.parse(text)
    except ConfigError:
        return False
    return True
