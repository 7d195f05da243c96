"""A node: one process, or a part of somebody's event loop, that is a cluster of one.

Start: take the locks, bind the ports, see whose directories these are and format what is new, load the metadata,
register as the leader of a new epoch, recover the partitions, and only then accept. Whatever fails on the way is a
`StartError` with one sentence, and everything taken is given back.

Stop: accept no more, let requests in flight finish, flush everything, give up the registration, and leave the mark of a
clean stop last of all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from barnabas.core.metadata.state import BROKER_RESOURCE, Endpoint, MetadataDelta, MetadataImage
from barnabas.node import open_files
from barnabas.node.configuration import BrokerConfig, ConfigError, ListenerEndpoint
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.coordinators.groups import GroupCoordinator
from barnabas.node.directory_assignment import DirectoryAssignment
from barnabas.node.dispatch import Dispatcher
from barnabas.node.fetch_sessions import FetchSessions
from barnabas.node.housekeeping import Housekeeping
from barnabas.node.metadata.controller import Controller
from barnabas.node.metadata.epoch import Registration
from barnabas.node.metadata.errors import StartError
from barnabas.node.metadata.format import claim_directories
from barnabas.node.metadata.load import load_metadata
from barnabas.node.metadata.log import MetadataLog, MetadataLogConfig
from barnabas.node.metadata.snapshotting import SnapshotPolicy
from barnabas.node.metadata_cache import MetadataCache
from barnabas.node.net.server import Server
from barnabas.node.net.settings import Listener, NetworkSettings, parse_ip_overrides
from barnabas.node.partitions import FLUSH_CHECK_MS, Intervals, Partitions
from barnabas.node.producer_ids import ProducerIds
from barnabas.node.recompression import Recompression
from barnabas.node.replica_moves import MoveLimits, ReplicaMoves
from barnabas.node.requests import ListenerKind
from barnabas.node.storage.cleaning.cleaner import Cleaner, CleanerSettings
from barnabas.node.storage.directory_lock import DirectoryLocked
from barnabas.node.storage.loading import WrongDirectory
from barnabas.node.storage.log_config import LONG_MAX, LogConfig
from barnabas.node.storage.log_dir import LogDir
from barnabas.node.storage.log_dirs import LogDirs
from barnabas.node.storage.meta_properties import BadMetaProperties
from barnabas.node.transactions.coordinator import TransactionCoordinator
from barnabas.wire.uuids import Uuid

__all__ = ["Node", "StartError"]

log = logging.getLogger("barnabas.node")


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Node:
    log_dirs: LogDirs
    server: Server
    controller: Controller
    partitions: Partitions
    housekeeping: Housekeeping
    recompression: Recompression
    replica_moves: ReplicaMoves
    cleaner: Cleaner
    metadata_cache: MetadataCache
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    topic_configs: TopicConfigs
    groups: GroupCoordinator
    transactions: TransactionCoordinator

    def __init__(self, config: BrokerConfig, clock: Callable[[], int] = wall_clock_ms) -> None:
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self.cluster_id = ""
        # Set when the node can no longer do its work and has to stop; `failure` says why.
        self.failed = asyncio.Event()
        self.failure = ""
        self._metadata_flusher: ThreadPoolExecutor | None = None
        self._metadata_dir: LogDir | None = None
        self._undo: list[Callable[[], object]] = []

    @classmethod
    async def start(cls, config: BrokerConfig, clock: Callable[[], int] = wall_clock_ms) -> Node:
        node = cls(config, clock)
        try:
            await node._start()
        except (ConfigError, DirectoryLocked, WrongDirectory, BadMetaProperties) as error:
            await node._give_back()
            raise StartError(str(error)) from error
        except OSError as error:
            await node._give_back()
            raise StartError(f"The node cannot start: {error}") from error
        except BaseException:
            await node._give_back()
            raise
        return node

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.controller.image

    def log_config(self, topic: str) -> LogConfig:
        return self.topic_configs.log_config(self.image, topic)

    def bound_ports(self) -> dict[str, int]:
        return {listener.name: listener.port for listener in self.server.listeners}

    def describe_listeners(self) -> list[str]:
        """A line for each address at which the node is to be found."""
        clients, controllers = self.config.advertised_listeners, self.config.advertised_controller_listeners
        return [
            f"{kind:11} {each.host}:{each.port}" + (f" ({each.name})" if len(endpoints) > 1 else "")
            for kind, endpoints in (("clients", clients), ("controller", controllers))
            for each in endpoints
        ]

    # Start

    async def _start(self) -> None:
        self.config.require_supported()
        self._lock_directories()
        await self._bind()
        self._claim()
        await self._lead()
        await self._open_partitions()
        if self.failed.is_set():
            raise StartError(self.failure)
        await self.server.serve()
        addresses = ", ".join(" ".join(line.split()) for line in self.describe_listeners())
        log.info("Node %d of cluster %s serves %s", self.node_id, self.cluster_id, addresses)

    def _lock_directories(self) -> None:
        try:
            self._take_directories()
        except FileExistsError as error:
            raise StartError(f"{error.filename} is to be a log directory and is a file") from error
        except OSError as error:
            raise StartError(f"A log directory cannot be used: {error.filename}: {error.strerror}") from error

    def _take_directories(self) -> None:
        config = self.config
        self.log_dirs = LogDirs(
            config.log_dirs,
            on_failure=self._log_dir_failed,
            max_open_files=open_files.for_logs(),
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        self._undo += [each.release for each in self.log_dirs.dirs]
        metadata_path = str(config.metadata_log_dir.absolute())
        found = [each for each in self.log_dirs.dirs if each.path == metadata_path]
        if found:
            self._metadata_dir = found[0]
            if found[0].offline is not None:
                raise found[0].offline
        else:
            separate = LogDir(metadata_path, handles=self.log_dirs.handles, on_failure=self._log_dir_failed)
            self._metadata_dir = separate
            self._undo.append(separate.release)

    async def _bind(self) -> None:
        self.server = Server(Dispatcher(self), network_settings(self.config))
        self._undo.append(lambda: self.server.stop(0))
        for endpoint in self.config.listeners:
            kind = ListenerKind.CONTROLLER if endpoint in self.config.controller_listeners else ListenerKind.BROKER
            listener = Listener(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                kind=kind,
                security_protocol=endpoint.security_protocol,
            )
            try:
                await self.server.listen(listener, serve=False)
            except OSError as error:
                raise StartError(f"The listener {endpoint} cannot be opened: {error.strerror or error}") from error
        self.config = self.config.with_bound_ports(self.bound_ports())

    def _claim(self) -> None:
        assert self._metadata_dir is not None
        self.cluster_id = claim_directories(
            self.log_dirs.dirs,
            self._metadata_dir,
            node_id=self.node_id,
            cluster_id=self.config.cluster_id,
            controller_endpoints=_endpoints(self.config.advertised_controller_listeners),
            now_ms=self.clock(),
        )

    async def _lead(self) -> None:
        assert self._metadata_dir is not None
        directory_id = self._metadata_dir.directory_id
        assert directory_id is not None
        config = self.config
        loaded = load_metadata(Path(self._metadata_dir.path), node_id=self.node_id, directory_id=directory_id)
        self.log_dirs.begin()
        if self._metadata_dir not in self.log_dirs.dirs:
            self._metadata_dir.begin()
        if self._metadata_dir.offline is not None:
            raise self._metadata_dir.offline
        self._metadata_flusher = flusher = ThreadPoolExecutor(1, thread_name_prefix="metadata-flusher")
        self._undo.append(flusher.shutdown)
        log_config = MetadataLogConfig(
            segment_bytes=config.metadata_log_segment_bytes, segment_ms=config.metadata_log_segment_ms
        )
        metadata_log = MetadataLog.open(loaded, log_config, flusher, self.clock)
        self.controller = Controller(
            loaded,
            metadata_log,
            flusher,
            node_id=self.node_id,
            directory_id=directory_id,
            clock=self.clock,
            snapshots=SnapshotPolicy(
                max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
        )
        self._undo.append(lambda: self.controller.stop())
        self.controller.on_failed = lambda error: self._fail(f"The metadata log cannot be written any more: {error}")
        await self.controller.activate(
            Registration(
                incarnation_id=Uuid.random(),
                broker_endpoints=_endpoints(config.advertised_listeners),
                controller_endpoints=_endpoints(config.advertised_controller_listeners),
                log_dirs=[each.directory_id for each in self.log_dirs.online if each.directory_id is not None],
                rack=config.broker_rack,
            )
        )

    async def _open_partitions(self) -> None:
        self.topic_configs = TopicConfigs(self.config)
        self.config = self.topic_configs.broker(self.image)
        self.metadata_cache = MetadataCache(self.node_id, self.cluster_id)
        self.fetch_sessions = FetchSessions(self.config.max_incremental_fetch_session_cache_slots, self.clock)
        self.producer_ids = ProducerIds(self.controller.allocate_producer_ids)
        self.recompression = Recompression()
        self._undo.append(self.recompression.close)
        self.partitions = Partitions(self.node_id, self.log_dirs, self.log_config, self.clock, intervals(self.config))
        await self.log_dirs.load(
            self.log_config,
            now_ms=self.clock(),
            home_of=partial(self.partitions.home_of, self.image),
            recovery_children_per_dir=self.config.num_recovery_threads_per_data_dir,
        )
        self._undo.append(self.partitions.stop)
        self.controller.on_committed += [self._apply_configs, self.partitions.apply]
        await self.partitions.start(self.image)
        self._coordinate()
        if len(self.log_dirs.dirs) > 1:
            assignment = DirectoryAssignment(self.node_id, self.log_dirs, self.controller)
            assignment.start(self.image)
            self.controller.on_committed.append(assignment.apply)
        self.replica_moves = ReplicaMoves(
            self.node_id, self.partitions, self.log_dirs, self.controller, self.clock, lambda: move_limits(self.config)
        )
        self._undo.append(self.replica_moves.stop)
        self.replica_moves.resume()
        for directory in self.log_dirs.dirs:
            if directory.offline is not None:
                self.replica_moves.directory_lost(directory)
        self.housekeeping = Housekeeping(
            self.partitions,
            self.clock,
            initial_delay_ms=self.config.log_initial_task_delay_ms,
            retention_check_ms=self.config.log_retention_check_interval_ms,
        )
        self.housekeeping.start()
        self._undo.append(self.housekeeping.stop)
        self.cleaner = Cleaner(self.partitions, self.log_dirs.online, self.clock, cleaner_settings(self.config))
        self.cleaner.start()
        self._undo.append(self.cleaner.stop)

    def _coordinate(self) -> None:
        self.groups = GroupCoordinator(self)
        self._undo.append(self.groups.stop)
        self.controller.on_committed.append(self.groups.apply)
        self.groups.start()
        self.transactions = TransactionCoordinator(self)
        self._undo.append(self.transactions.stop)
        self.controller.on_committed.append(self.transactions.apply)
        self.transactions.start()

    async def _give_back(self) -> None:
        """What a start that failed had taken, the last first."""
        for undo in reversed(self._undo):
            try:
                result = undo()
                if asyncio.iscoroutine(result):
                    await result
            except Exception:
                log.exception("Something could not be given back")

    # While it runs

    def _apply_configs(self, delta: MetadataDelta) -> None:
        if any(kind == BROKER_RESOURCE for kind, _ in delta.configs):
            self.config = self.topic_configs.broker(self.image)
            self.server.reconfigure(network_settings(self.config))
            self.cleaner.reconfigure(cleaner_settings(self.config))

    def _log_dir_failed(self, directory: LogDir, error: OSError) -> None:
        log.error("The log directory %s has failed and is offline: %s", directory.path, error)
        if hasattr(self, "partitions"):
            self.partitions.log_dir_failed(directory)
        if directory is self._metadata_dir or not self.log_dirs.online:
            self._fail(f"The log directory {directory.path} has failed: {error}")
        elif hasattr(self, "replica_moves"):
            self.replica_moves.directory_lost(directory)

    def _fail(self, why: str) -> None:
        if not self.failed.is_set():
            self.failure = why
            log.critical(why)
            self.failed.set()

    # Stop

    async def stop(self) -> None:
        # A fetch that waits for records is answered without them, once its connection knows that this is the last one.
        for partition in self.partitions:
            partition.wake_all()
        # Members who wait for the others of their group look for another coordinator.
        await self.transactions.stop()
        await self.groups.stop()
        await self.server.stop()
        self.recompression.close()
        await self.replica_moves.stop()
        await self.housekeeping.stop()
        await self.cleaner.stop()
        await self.partitions.stop()
        await self.controller.stop()
        if self.controller.failure is not None:
            self._fail(f"The metadata log could not be closed: {self.controller.failure}")
        clean = not self.failed.is_set()
        broker_epoch = self.controller.broker_epoch
        high_watermarks = self.partitions.high_watermarks()
        await self.log_dirs.close(clean=clean, broker_epoch=broker_epoch, high_watermarks=high_watermarks)
        if self._metadata_dir is not None and self._metadata_dir not in self.log_dirs.dirs:
            await self._metadata_dir.close(clean=clean, broker_epoch=broker_epoch)
        if self._metadata_flusher is not None:
            self._metadata_flusher.shutdown()
        log.info("Node %d has stopped", self.node_id)


def _endpoints(listeners: tuple[ListenerEndpoint, ...]) -> list[Endpoint]:
    return [Endpoint(each.name, each.host, each.port, each.security_protocol) for each in listeners]


def network_settings(config: BrokerConfig) -> NetworkSettings:
    queued_max_bytes = config.queued_max_request_bytes
    settings = NetworkSettings(
        request_max_bytes=config.socket_request_max_bytes,
        backlog=config.socket_listen_backlog_size,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        max_connections=min(config.max_connections, open_files.for_connections()),
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=parse_ip_overrides(config.max_connections_per_ip_overrides),
        max_idle_ms=config.connections_max_idle_ms,
        **({"queued_max_bytes": queued_max_bytes} if queued_max_bytes > 0 else {}),
    )
    return settings


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        enable=config.log_cleaner_enable,
        threads=config.log_cleaner_threads,
        backoff_ms=config.log_cleaner_backoff_ms,
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_max_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
    )


def move_limits(config: BrokerConfig) -> MoveLimits:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    rate = config.dynamic_broker.get(key) or config.dynamic_default.get(key) or LONG_MAX
    return MoveLimits(
        replicas_at_once=config.num_replica_alter_log_dirs_threads or len(config.log_dirs), bytes_per_second=int(rate)
    )


def intervals(config: BrokerConfig) -> Intervals:
    return Intervals(
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        recovery_point_checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
        flush_check_ms=min(config.log_flush_scheduler_interval_ms, FLUSH_CHECK_MS),
        producer_id_expiration_check_ms=config.producer_id_expiration_check_interval_ms,
    )
