"""The broker role of a node: partitions and coordinators, and whatever looks after them. It is what handlers see.

Start: the logs on disk are opened, recovered where they must be, and paired with the image; then come moves, retention
and compaction, at last the coordinators. Each part puts its own end on the exit stack, so they stop in reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from barnabas.core.metadata.state import BROKER_RESOURCE, MetadataDelta, MetadataImage
from barnabas.node.broker.automatic_topics import AutomaticTopics
from barnabas.node.broker.channel import ToController
from barnabas.node.broker.coordinators.groups import GroupCoordinator
from barnabas.node.broker.directory_assignment import DirectoryAssignment
from barnabas.node.broker.fetch_sessions import FetchSessions
from barnabas.node.broker.housekeeping import Housekeeping
from barnabas.node.broker.metadata_cache import MetadataCache
from barnabas.node.broker.partitions import FLUSH_CHECK_MS, Intervals, Partitions
from barnabas.node.broker.producer_ids import ProducerIds
from barnabas.node.broker.recompression import Recompression
from barnabas.node.broker.registration import BrokerLife
from barnabas.node.broker.replica_moves import ReplicaMoves
from barnabas.node.broker.replication.in_sync_changes import InSyncChanges
from barnabas.node.broker.replication.peers import Peers
from barnabas.node.broker.replication.replicas import Replicas
from barnabas.node.broker.replication.throttles import Throttles
from barnabas.node.broker.shares.coordinator import ShareCoordinator
from barnabas.node.broker.shares.partitions import SharePartitions
from barnabas.node.broker.shares.persister import make_persister
from barnabas.node.broker.transactions.coordinator import TransactionCoordinator
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.quorum_member import QuorumMember
from barnabas.node.raft.interface import Raft
from barnabas.node.storage.cleaning.cleaner import Cleaner, CleanerSettings
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.log_config import LogConfig


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        member: QuorumMember,
        life: BrokerLife,
        log_dirs: LogDirs,
        *,
        cluster_id: str,
        clock: Callable[[], int],
        on_reconfigured: Callable[[BrokerConfig], None],
    ) -> None:
        """Of a broker that is registered. `on_reconfigured` is told of every change of its dynamic configuration."""
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.clock = clock
        self.log_dirs = log_dirs
        self.controller: ToController = member.channel
        self.raft: Raft = member.raft
        self._loader: MetadataLoader = member.loader
        self._life = life
        self._on_reconfigured = on_reconfigured
        self.topic_configs = TopicConfigs(config)
        self.config = self.topic_configs.broker(self.image)
        self.metadata_cache = MetadataCache(self.node_id, cluster_id)
        self.fetch_sessions = make_fetch_sessions(self.config, clock)
        self.producer_ids = ProducerIds(life.allocate_producer_ids)
        self.automatic_topics = AutomaticTopics(self.controller, lambda: self.config, clock)
        self.recompression = Recompression()
        self.peers = Peers(config, lambda: self.image)
        self.in_sync_changes = InSyncChanges(
            self.node_id,
            self.controller,
            lambda: self.image,
            lambda: life.epoch,
            clock,
            self.config.replica_lag_time_max_ms,
        )
        self.partitions = Partitions(
            self.node_id, log_dirs, self.log_config, clock, intervals(self.config), self.in_sync_changes
        )
        self.throttles = Throttles(self.node_id, self.config)
        self.replicas = Replicas(
            self.node_id,
            self.partitions,
            log_dirs,
            self.peers,
            lambda: self.config,
            throttle=self.throttles.follower,
            image=lambda: self.image,
            broker_epoch=lambda: life.epoch,
            clock=clock,
        )
        self.replica_moves = ReplicaMoves(
            self.partitions,
            log_dirs,
            life,
            clock,
            self.throttles.moves,
            self.config.num_replica_alter_log_dirs_threads or len(self.config.log_dirs),
        )
        self.cleaner = Cleaner(self.partitions, log_dirs.online, clock, cleaner_settings(self.config))
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.share_coordinator = ShareCoordinator(self)
        self.persister = make_persister(
            self.config.group_share_persister_class_name, self.node_id, self.share_coordinator, self.peers
        )
        self.share_partitions = SharePartitions(self, self.persister)

    @property
    def image(self) -> MetadataImage:
        """The committed metadata, as this node has it."""
        return self._loader.image

    def log_config(self, topic: str) -> LogConfig:
        return self.topic_configs.log_config(self.image, topic)

    async def start(self, stack: AsyncExitStack) -> None:
        """Everything but the coordinators, which stop before the last requests are answered."""
        stack.callback(self.recompression.close)
        stack.push_async_callback(self.peers.close)
        await self.log_dirs.load(
            self.log_config,
            now_ms=self.clock(),
            home_of=partial(self.partitions.home_of, self.image),
            recovery_children_per_dir=self.config.num_recovery_threads_per_data_dir,
        )
        stack.push_async_callback(self.partitions.stop)
        self._loader.add_publisher("configuration", self._apply_configs)
        self._loader.add_publisher("partitions", self.partitions.apply)
        self._loader.add_publisher("replicas", self.replicas.apply)
        self._loader.add_publisher("deleted topics", self.automatic_topics.apply)
        stack.push_async_callback(self.automatic_topics.stop)
        await self.partitions.start(self.image)
        stack.push_async_callback(self.in_sync_changes.stop)
        stack.push_async_callback(self.replicas.stop)
        self.replicas.start()
        chooses = len(self.log_dirs.dirs) > 1
        assignment = DirectoryAssignment(self.node_id, self.log_dirs, self._life, chooses=chooses)
        stack.push_async_callback(assignment.stop)
        assignment.start(self.image)
        self._loader.add_publisher("assignment of directories", assignment.apply)
        stack.push_async_callback(self.replica_moves.stop)
        self.replica_moves.resume()
        for directory in self.log_dirs.dirs:
            if directory.offline is not None:
                self.replica_moves.directory_lost(directory)
        self._look_after_logs(stack)

    def _look_after_logs(self, stack: AsyncExitStack) -> None:
        housekeeping = Housekeeping(
            self.partitions,
            self.clock,
            initial_delay_ms=self.config.log_initial_task_delay_ms,
            retention_check_ms=self.config.log_retention_check_interval_ms,
        )
        housekeeping.start()
        stack.push_async_callback(housekeeping.stop)
        self.cleaner.start()
        stack.push_async_callback(self.cleaner.stop)

    def coordinate(self, stack: AsyncExitStack) -> None:
        """At the stop, whoever waits for the others of a group looks for another coordinator, and whoever waits for
        records is answered without them."""
        for name, coordinator in (
            ("group", self.groups),
            ("transaction", self.transactions),
            ("share", self.share_coordinator),
        ):
            stack.push_async_callback(coordinator.stop)
            self._loader.add_publisher(f"{name} coordinator", coordinator.apply)
            coordinator.start()
        stack.push_async_callback(self.share_partitions.stop)
        stack.callback(self._wake_all)

    def _wake_all(self) -> None:
        for partition in self.partitions:
            partition.wake_all()

    def log_dir_failed(self, directory: LogDir) -> None:
        self.replicas.log_dir_failed()
        self.partitions.log_dir_failed(directory)
        if self.log_dirs.online:
            self.replica_moves.directory_lost(directory)

    def _apply_configs(self, delta: MetadataDelta) -> None:
        if any(kind == BROKER_RESOURCE for kind, _ in delta.configs):
            self.config = self.topic_configs.broker(self.image)
            self.cleaner.reconfigure(cleaner_settings(self.config))
            self.throttles.reconfigure(self.config)
            self._on_reconfigured(self.config)


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        enable=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        backoff_ms=config.log_cleaner_backoff_ms,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )


def intervals(config: BrokerConfig) -> Intervals:
    return Intervals(
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_point_checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
        flush_check_ms=min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS),
        producer_id_expiration_check_ms=config.producer_id_expiration_check_interval_ms,
    )


def make_fetch_sessions(config: BrokerConfig, clock: Callable[[], int]) -> FetchSessions:
    slots = config.max_incremental_fetch_session_cache_slots
    return FetchSessions(slots, clock, max_partitions=config.barnabas_fetch_session_max_partitions)
