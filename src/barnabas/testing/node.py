"""A real node for tests: on a free port, in a temporary directory, gone when the block ends.

with Node() as node:                 # a process of its own
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})

async with Node() as node:           # inside the running event loop
    ...
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.testing.process import NodeProcess, StartFailed, config_text
from barnabas.testing.reserved_port import HOST, ReservedPort
from barnabas.testing.reset import reset
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from barnabas.node.node import Node as EmbeddedNode

__all__ = ["Node", "StartFailed"]


class Node:
    """`config` takes any key of Kafka's server.properties; `data_dir` outlives the node, the default does not.

    A node with a process of its own may be used from any thread. One inside an event loop answers only while that loop
    runs: the blocking calls belong into `asyncio.to_thread`.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        timeout_s: float = 30.0,
        cluster_id: str = "",
    ) -> None:
        self.ports: dict[str, int] = {}
        self.cluster_id = self._given_cluster_id = cluster_id
        self.paused = False
        self._config = {key: config_text(value) for key, value in (config or {}).items()}
        self._data_dir = None if data_dir is None else Path(data_dir).absolute()
        self._wanted_port = port
        self._timeout_s = timeout_s
        self._temporary: Path | None = None
        self._reserved: dict[str, ReservedPort] = {}
        self._process: NodeProcess | None = None
        self._last_pid: int | None = None
        self._embedded: EmbeddedNode | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        state = f"at {self.bootstrap_servers}" if self.running else "not running"
        known = self._data_dir is not None or self._temporary is not None
        return f"<Node {state}, data in {self.data_dir if known else 'a temporary directory'}>"

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def port(self) -> int:
        """Of the first listener for clients; `ports` has all of them by name. It stays the same over restarts."""
        return next((port for name, port in self.ports.items() if name not in self._controllers), self._wanted_port)

    @property
    def controller_port(self) -> int:
        return next((port for name, port in self.ports.items() if name in self._controllers), 0)

    @property
    def data_dir(self) -> Path:
        return self._data_dir or self._own_directory() / "data"

    @property
    def pid(self) -> int:
        return self._own_process("pid").pid

    @property
    def last_pid(self) -> int | None:
        """Of the process that was started last, from its first moment on, and also when it has ended."""
        return self._last_pid

    @property
    def running(self) -> bool:
        return self._embedded is not None or (self._process is not None and self._process.running)

    def start(self) -> Self:
        """Raises StartFailed with the node's own sentence."""
        with self._lock:
            if self.running:
                raise RuntimeError("the node is running already")
            self.stop()
            properties = self._properties(reserve=True)
            overrides = [argument for item in properties.items() for argument in ("--override", "=".join(item))]
            log_path = self._own_directory() / "log"
            log_path.parent.mkdir(exist_ok=True)
            known = {"CLUSTER_ID": self._given_cluster_id} if self._given_cluster_id else {}
            self._process = process = NodeProcess(
                overrides, log_path, self._timeout_s, variables=known, on_spawned=self._spawned
            )
            self.ports, self.cluster_id = process.ready["listeners"], process.ready["cluster_id"]
            return self

    def stop(self) -> None:
        """A clean stop, as SIGTERM asks for it. Nothing happens if it does not run."""
        with self._lock:
            if self.running or self._process is not None:
                if self.paused:
                    self.resume()
                self._own_process("stop()").stop(self._timeout_s)

    def kill(self) -> None:
        """As `kill -9`: nothing is flushed, nothing is said."""
        with self._lock:
            self._own_process("kill()").kill()
            self.paused = False

    def pause(self) -> None:
        """As a machine that hangs: connections stay open, and nobody answers."""
        self._own_process("pause()").send(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self._own_process("resume()").send(signal.SIGCONT)
        self.paused = False

    def restart(self) -> None:
        """Stops cleanly unless it was stopped or killed before, and starts again on the same ports and directory."""
        with self._lock:
            self.stop()
            self.start()

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> None:
        """Raises KafkaError, for instance if it is there already."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=config_text(value)) for key, value in (config or {}).items()],
        )
        with self.connect() as connection:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self._timeout_s * 1000))
            (created,) = connection.request(request).topics
        if created.error_code:
            raise KafkaError(ErrorCode(created.error_code), created.error_message or f"{name} was not created")

    def reset(self) -> None:
        """Deletes all topics and dynamic configurations: a fresh node within milliseconds."""
        with self.connect() as connection:
            reset(connection)

    def connect(self) -> Connection:
        """A connection that sends the protocol's messages as they are; raises a ClientError."""
        if self._loop is not None and self._loop is asyncio._get_running_loop():
            raise RuntimeError("the node runs in this event loop, which must not block: use asyncio.to_thread")
        address = (HOST, self.port)
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def log(self) -> str:
        """What the node's process has printed, since the first start."""
        path = self._temporary / "log" if self._temporary else None
        return path.read_text(errors="replace") if path and path.exists() else ""

    def close(self) -> None:
        """Stops it and removes what is temporary; once more does no harm. A closed node can be started anew."""
        with self._lock:
            try:
                self.stop()
            finally:
                self._process = None
                self._let_go()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        from barnabas.node.configuration import BrokerConfig, ConfigError
        from barnabas.node.node import Node as EmbeddedNode
        from barnabas.node.node import StartError

        if self.running:
            raise RuntimeError("the node is running already")
        try:
            config = BrokerConfig.from_properties(self._properties(reserve=False))
            for warning in config.warnings:
                logging.getLogger("barnabas").warning(warning)
            self._embedded = embedded = await EmbeddedNode.start(config)
        except (ConfigError, StartError) as error:
            self._let_go()
            raise StartFailed(str(error)) from error
        except BaseException:
            self._let_go()
            raise
        self._loop = asyncio.get_running_loop()
        self.ports, self.cluster_id = embedded.bound_ports(), embedded.cluster_id
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        embedded, self._embedded, self._loop = self._embedded, None, None
        try:
            if embedded is not None:
                await embedded.stop()
        finally:
            await asyncio.to_thread(self._let_go)

    @property
    def _controllers(self) -> list[str]:
        return [name.strip().upper() for name in self._config.get("controller.listener.names", "CONTROLLER").split(",")]

    def _properties(self, *, reserve: bool) -> dict[str, str]:
        properties = {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{self._wanted_port},CONTROLLER://{HOST}:0",
            "log.dirs": str(self.data_dir),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        } | self._config
        if reserve:
            listeners = properties["listeners"].split(",")
            properties["listeners"] = ",".join(self._with_reserved_port(each.strip()) for each in listeners)
        return properties

    def _with_reserved_port(self, listener: str) -> str:
        name, _, address = listener.partition("://")
        if address != f"{HOST}:0":
            return listener
        if name not in self._reserved:
            self._reserved[name] = ReservedPort()
        return f"{name}://{HOST}:{self._reserved[name].number}"

    def _spawned(self, pid: int) -> None:
        self._last_pid = pid

    def _own_process(self, what: str) -> NodeProcess:
        if self._process is None:
            inside = self._embedded is not None
            why = "this one runs inside an event loop" if inside else "this one has not been started"
            raise RuntimeError(f"{what} is for a node with a process of its own, and {why}")
        return self._process

    def _own_directory(self) -> Path:
        with self._lock:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="barnabas-"))
            return self._temporary

    def _let_go(self) -> None:
        reserved, self._reserved = self._reserved, {}
        for port in reserved.values():
            port.release()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
