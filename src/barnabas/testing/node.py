"""A real node for tests: on a free port, in a temporary directory, gone when the block ends.

with Node() as node:                 # a process of its own
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})

async with Node() as node:           # inside the running event loop
    ...
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from barnabas.client.blocking import Connection
from barnabas.testing.process import NodeProcess
from barnabas.testing.reset import reset

if TYPE_CHECKING:
    from barnabas.node.node import Node as EmbeddedNode

HOST = "127.0.0.1"


class Node:
    """`config` takes any key of Kafka's server.properties; `data_dir` outlives the node, the default does not."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | Path | None = None,
        port: int = 0,
        timeout_s: float = 30.0,
    ) -> None:
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        self._temporary = Path(tempfile.mkdtemp(prefix="barnabas-")) if data_dir is None else None
        self.data_dir = self._temporary / "data" if self._temporary else Path(str(data_dir))
        self.log_path = (self._temporary or self.data_dir.parent) / f"{self.data_dir.name}.log"
        self.port = port
        self.controller_port = 0
        self.cluster_id = ""
        self._timeout_s = timeout_s
        self._process: NodeProcess | None = None
        self._embedded: EmbeddedNode | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """The process that serves: None of yours unless the node runs inside your event loop."""
        assert self._process is not None, "the node has no process of its own"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._embedded is not None or (self._process is not None and self._process.running)

    def properties(self) -> dict[str, str]:
        return {
            "node.id": "1",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "log.dirs": str(self.data_dir),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
        } | self._config

    def start(self) -> Self:
        assert not self.running, "the node is running"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        overrides = [argument for item in self.properties().items() for argument in ("--override", "=".join(item))]
        self._process = NodeProcess(overrides, self.log_path, self._timeout_s)
        self._learn_ports(self._process.ready["listeners"], self._process.ready["cluster_id"])
        return self

    def stop(self) -> None:
        """A clean stop, as SIGTERM asks for it."""
        if self._process is not None and self._process.running:
            self._process.stop(self._timeout_s)

    def kill(self) -> None:
        """As `kill -9`: nothing is flushed, nothing is said."""
        assert self._process is not None, "only a node with a process of its own can be killed"
        self._process.kill()

    def restart(self) -> None:
        """Stops cleanly unless it was killed before, and starts again on the same port and directory."""
        self.stop()
        self.start()

    def reset(self) -> None:
        """Deletes all topics and dynamic configurations: a fresh node within milliseconds."""
        with self.connect() as connection:
            reset(connection)

    def connect(self) -> Connection:
        """A raw connection that sends the protocol's messages as they are."""
        return Connection(HOST, self.port)

    def log(self) -> str:
        """What the node's process has printed."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def close(self) -> None:
        try:
            self.stop()
        finally:
            if self._temporary:
                shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        from barnabas.node.configuration import BrokerConfig
        from barnabas.node.node import Node as EmbeddedNode

        self._embedded = await EmbeddedNode.start(BrokerConfig.from_properties(self.properties()))
        self._learn_ports(self._embedded.bound_ports(), self._embedded.cluster_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            await embedded.stop()
        if self._temporary:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(shutil.rmtree, self._temporary)

    def _learn_ports(self, ports: Mapping[str, int], cluster_id: str) -> None:
        self.cluster_id = cluster_id
        controller_names = {"CONTROLLER"}
        self.controller_port = ports.get("CONTROLLER", 0)
        self.port = next(port for name, port in ports.items() if name not in controller_names)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
