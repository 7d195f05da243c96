"""A node: one process, or a part of somebody's event loop, that is a broker, a controller or both.

Start: take the locks, bind the ports, see whose directories these are and format what is new, load the metadata and
join the quorum. A node that is the whole quorum leads it at once; any other serves its controllers' listener first,
since a quorum comes into being by its voters talking to each other. A broker then registers, applies the metadata up
to its registration, recovers its partitions, is taken into service, and only then accepts clients. Each part puts its
own end on one exit stack. Whatever fails on the way is a `StartError` with one sentence, and the stack gives everything
back.

Stop: the stack in reverse. A broker among others first hands its partitions over. Nobody is accepted any more, requests
in flight finish, everything is flushed, the broker gives up its registration, the controller the lead, and the mark of
a clean stop is left last of all.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from barnabas.core.metadata.state import Endpoint
from barnabas.node import open_files
from barnabas.node.broker.broker import Broker
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.node.configuration import BrokerConfig, ConfigError, ListenerEndpoint
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.role import ControllerRole
from barnabas.node.directories import Directories
from barnabas.node.dispatch import Dispatcher
from barnabas.node.metadata.snapshotting import SnapshotPolicy
from barnabas.node.net.server import Server
from barnabas.node.net.settings import Listener, NetworkSettings, names_hosts, parse_ip_overrides
from barnabas.node.quorum_member import QuorumMember
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.format import claim_directories
from barnabas.node.raft.load import load_metadata
from barnabas.node.raft.log import MetadataLogConfig
from barnabas.node.raft.settings import bootstrap_servers, configured_voters, peer_settings, raft_config
from barnabas.node.requests import ListenerKind
from barnabas.node.security.node_security import NodeSecurity
from barnabas.node.storage.directory.directory_lock import DirectoryLocked
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.meta_properties import BadMetaProperties
from barnabas.node.storage.recovery.loading import WrongDirectory
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

__all__ = ["Node", "StartError"]

log = logging.getLogger("barnabas.node")


# A broker that cannot hand its partitions over within this time leaves without.
HAND_OVER_TIMEOUT_S = 10.0


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_clock() -> Callable[[], int]:
    """The time of day at the start, and from there on a clock that nobody sets."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    return lambda: (time.monotonic_ns() + offset_ns) // 1_000_000


class Node:
    server: Server
    directories: Directories
    member: QuorumMember
    life: BrokerLife
    security: NodeSecurity

    def __init__(self, config: BrokerConfig, clock: Callable[[], int] = wall_clock_ms) -> None:
        self.config = config
        self.clock = clock
        self.node_id = config.node_id
        self.cluster_id = ""
        # Set when the node can no longer do its work and has to stop; `failure` says why.
        self.failed = asyncio.Event()
        self.failure = ""
        self._broker: Broker | None = None
        self._network_config = config  # the last one that the network was told of, or is about to be
        self._started = False
        self._parts = AsyncExitStack()

    @classmethod
    async def start(cls, config: BrokerConfig, clock: Callable[[], int] = wall_clock_ms) -> Node:
        node = cls(config, clock)
        async with AsyncExitStack() as parts:
            try:
                await node._start(parts)
            except (ConfigError, DirectoryLocked, WrongDirectory, BadMetaProperties) as error:
                raise StartError(str(error)) from error
            except OSError as error:
                raise StartError(f"The node cannot start: {error}") from error
            node._parts = parts.pop_all()
        return node

    async def stop(self) -> None:
        await self._parts.aclose()
        log.info("Node %d has stopped", self.node_id)

    @property
    def broker(self) -> Broker:
        assert self._broker is not None
        return self._broker

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

    async def _start(self, parts: AsyncExitStack) -> None:
        self.security = NodeSecurity(self.config, lambda: self.member.loader.image)
        self.directories = Directories(self.config, self._log_dir_failed)
        parts.push_async_callback(self._close_directories)
        await self._bind(parts)
        self._claim()
        await self._join_quorum(parts)
        self.security.guard(self.server, self.config)
        self.member.loader.add_publisher("security", self.security.follow)
        registration = self._registration()
        if self.is_controller:
            await self._register_controller(registration, parts)
        if self.is_broker:
            await self._start_broker(registration, parts)
        if self.failed.is_set():
            raise StartError(self.failure)
        await self._serve()
        if self.is_broker and (audit_topic := self.security.start_audit_topic(self.config)) is not None:
            parts.push_async_callback(asyncio.to_thread, audit_topic.close)
        self._started = True
        addresses = ", ".join(" ".join(line.split()) for line in self.describe_listeners())
        log.info("Node %d of cluster %s serves %s", self.node_id, self.cluster_id, addresses)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.config.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.config.process_roles

    async def _start_broker(self, registration: Registration, parts: AsyncExitStack) -> None:
        await self._register(registration, parts)
        broker = Broker(
            self.config,
            self.member,
            self.life,
            self.directories.log_dirs,
            cluster_id=self.cluster_id,
            clock=self.clock,
            on_reconfigured=self._reconfigure,
        )
        self._broker = self.server.dispatcher.node = broker
        self._reconfigure(broker.config)
        await broker.start(parts)
        parts.push_async_callback(self.server.stop, kind=ListenerKind.BROKER)
        broker.coordinate(parts)
        loader = self.member.loader
        loader.add_publisher("heartbeats", lambda delta: self.life.follow(loader.image, delta))
        if not self.member.raft.is_alone:
            await self.life.unfence()
        else:
            self.life.start_heartbeats()
        parts.push_async_callback(self._hand_over)

    async def _bind(self, parts: AsyncExitStack) -> None:
        """Nobody is accepted yet."""
        dispatcher = Dispatcher(
            max_request_elements=self.config.barnabas_request_max_elements,
            max_answer_bytes=self.config.barnabas_answer_max_bytes,
        )
        self.server = Server(dispatcher, network_settings(self.config))
        parts.push_async_callback(self.server.stop, 0)
        for endpoint in self.config.listeners:
            kind = ListenerKind.CONTROLLER if endpoint in self.config.controller_listeners else ListenerKind.BROKER
            listener = Listener(
                name=endpoint.name,
                host=endpoint.host,
                port=endpoint.port,
                kind=kind,
                security_protocol=endpoint.security_protocol,
                access=self.security.access,
                tls=self.security.tls[endpoint.name],
                logins=self.security.logins[endpoint.name],
            )
            try:
                await self.server.listen(listener, serve=False)
            except OSError as error:
                raise StartError(f"The listener {endpoint} cannot be opened: {error.strerror or error}") from error
        self.config = self.config.with_bound_ports(self.bound_ports())

    async def _serve(self, kind: ListenerKind | None = None) -> None:
        try:
            await self.server.serve(kind)
        except OSError as error:
            raise StartError(f"The listener {error.filename} cannot be opened: {error.strerror or error}") from error

    def _claim(self) -> None:
        config = self.config
        voters, servers = configured_voters(config), bootstrap_servers(config)
        own = [(each.host, each.port) for each in config.advertised_controller_listeners]
        is_alone = voters is None or list(voters) == [self.node_id] or (self.is_controller and servers == own[:1])
        if not is_alone and self.is_controller and not voters and self.directories.metadata_dir.meta is None:
            self._require_format()
        self.cluster_id = claim_directories(
            self.directories.log_dirs.dirs,
            self.directories.metadata_dir,
            node_id=self.node_id,
            cluster_id=config.cluster_id,
            controller_endpoints=_endpoints(config.advertised_controller_listeners),
            now_ms=self.clock(),
            voters_are_static=bool(voters) or not is_alone,
            makes_cluster=is_alone,
        )

    def _require_format(self) -> None:
        """A controller that looks for others is formatted by hand, unless it is to join them by itself."""
        if not self.config.controller_quorum_auto_join_enable:
            raise StartError(
                f"{self.directories.metadata_dir.path} is not formatted, and controller.quorum.bootstrap.servers does "
                "not say who votes: use kafka-storage format with --standalone, --initial-controllers or "
                "--no-initial-controllers, or list the voters in controller.quorum.voters"
            )

    async def _join_quorum(self, parts: AsyncExitStack) -> None:
        config, metadata_dir = self.config, self.directories.metadata_dir
        directory_id = metadata_dir.directory_id
        assert directory_id is not None
        loaded = load_metadata(
            Path(metadata_dir.path),
            node_id=self.node_id,
            directory_id=directory_id,
            voters=configured_voters(config),
        )
        self.directories.begin()
        flusher = ThreadPoolExecutor(1, thread_name_prefix="metadata-flusher")
        parts.callback(flusher.shutdown)
        clock = steady_clock() if self.clock is wall_clock_ms else self.clock
        self.member = member = QuorumMember(
            loaded,
            flusher,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            directory_id=directory_id,
            endpoints=_endpoints(config.advertised_controller_listeners),
            topic_configs=TopicConfigs(config),
            clock=clock,
            on_fault=self._fail,
            raft=raft_config(config, self.cluster_id, directory_id),
            peers=peer_settings(config),
            log_config=MetadataLogConfig(
                segment_bytes=config.metadata_log_segment_bytes, segment_ms=config.metadata_log_segment_ms
            ),
            snapshots=SnapshotPolicy(
                max_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
                max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
                retention_bytes=config.metadata_max_retention_bytes,
                retention_ms=config.metadata_max_retention_ms,
            ),
        )
        parts.push_async_callback(member.stop)
        self.server.dispatcher.controller = ControllerRole(
            config, member.loader, member.raft, member.local, cluster_id=self.cluster_id, clock=self.clock
        )
        if not member.raft.is_alone:
            await self._serve(ListenerKind.CONTROLLER)
        await member.start()
        member.snapshotting.start()

    def _registration(self) -> Registration:
        config, log_dirs = self.config, self.directories.log_dirs
        former = {each.previous_broker_epoch for each in log_dirs.dirs}
        return Registration(
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=Uuid.random(),
            broker_endpoints=_endpoints(config.advertised_listeners),
            controller_endpoints=_endpoints(config.advertised_controller_listeners),
            log_dirs=[each.directory_id for each in log_dirs.online if each.directory_id is not None],
            rack=config.broker_rack,
            previous_epoch=former.pop() if len(former) == 1 and len(log_dirs.online) == len(log_dirs.dirs) else -1,
        )

    async def _register_controller(self, registration: Registration, parts: AsyncExitStack) -> None:
        """At once where this node leads; else as soon as there is somebody to tell."""
        if self.member.raft.is_alone:
            try:
                await self.member.channel.request(registration.of_controller())
            except KafkaError as error:
                raise StartError(f"The node cannot register: {error.message}") from error
            return
        task = asyncio.get_running_loop().create_task(self._introduce(registration), name="controller-registration")
        parts.push_async_callback(_end, task)

    async def _introduce(self, registration: Registration) -> None:
        while True:
            try:
                await self.member.channel.request(registration.of_controller())
            except KafkaError as error:
                log.info("Controller %d cannot register yet: %s", self.node_id, error.message)
            else:
                return

    async def _register(self, registration: Registration, parts: AsyncExitStack) -> None:
        self.life = BrokerLife(
            registration,
            self.member.channel,
            lambda: self.member.loader.published_offset,
            self.config.broker_heartbeat_interval_ms,
        )
        is_alone = self.member.raft.is_alone
        try:
            await self.life.register(0 if is_alone else self.config.initial_broker_registration_timeout_ms / 1000)
            parts.push_async_callback(self._leave)
            if not is_alone:
                await self.life.wait_caught_up()
        except KafkaError as error:
            raise StartError(f"The node cannot register: {error.message}") from error

    # While it runs

    def _reconfigure(self, config: BrokerConfig) -> None:
        """At once, unless names are to be looked up: then in a thread, and the last configuration counts."""
        self._network_config = config
        self.security.reconfigure(config)
        if not names_hosts(config.max_connections_per_ip_overrides):
            self.server.reconfigure(network_settings(config))
            return
        lookup = asyncio.get_running_loop().run_in_executor(None, network_settings, config)
        lookup.add_done_callback(partial(self._looked_up, config))

    def _looked_up(self, config: BrokerConfig, lookup: asyncio.Future[NetworkSettings]) -> None:
        if config is self._network_config and not lookup.cancelled():
            self.server.reconfigure(lookup.result())

    def _log_dir_failed(self, directory: LogDir, error: OSError) -> None:
        log.error("The log directory %s has failed and is offline: %s", directory.path, error)
        if self._broker is not None:
            self._broker.log_dir_failed(directory)
        if directory is self.directories.metadata_dir or not self.directories.log_dirs.online:
            self._fail(f"The log directory {directory.path} has failed: {error}")

    def _fail(self, why: str) -> None:
        if not self.failed.is_set():
            self.failure = why
            log.critical(why)
            self.failed.set()

    # Stop

    async def _hand_over(self) -> None:
        if not self.member.raft.is_alone and self.member.raft.failure is None:
            await self.life.hand_over(HAND_OVER_TIMEOUT_S)

    async def _leave(self) -> None:
        self.member.loader.clear_publishers()  # What leads is gone already, and need not hear that it leads no more.
        if self.member.raft.failure is None:
            await self.life.leave()

    async def _close_directories(self) -> None:
        if not self._started:
            self.directories.release()
            return
        if self.member.raft.failure is not None:
            self._fail(f"The metadata log could not be closed: {self.member.raft.failure}")
        await self.directories.close(
            clean=not self.failed.is_set(),
            broker_epoch=self.life.epoch if self._broker is not None else -1,
            high_watermarks=self._broker.partitions.high_watermarks() if self._broker is not None else {},
        )


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


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
        rate_samples=int(str(config.value("quota.window.num"))),
        rate_window_s=int(str(config.value("quota.window.size.seconds"))),
        **({"queued_max_bytes": queued_max_bytes} if queued_max_bytes > 0 else {}),
    )
    return settings
