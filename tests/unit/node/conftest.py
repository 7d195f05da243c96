"""A data directory, and the metadata of a node on it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.node.broker.registration import BrokerLife, Registration
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.active import not_controller
from barnabas.node.quorum_member import QuorumMember
from barnabas.node.raft.format import claim_directories
from barnabas.node.raft.load import LoadedMetadata, load_metadata
from barnabas.node.storage.directory.files import FileHandles
from barnabas.node.storage.directory.log_dir import LogDir
from barnabas.node.storage.directory.meta_properties import read_meta_properties
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Member(QuorumMember):
    """The metadata of node 1, and its broker as far as it is registered."""

    def __init__(self, directory: Directory, **options: Any) -> None:
        self.faults: list[str] = []
        self._executor = ThreadPoolExecutor(1)
        super().__init__(
            directory.load(),
            self._executor,
            node_id=1,
            cluster_id="cluster-A",
            directory_id=directory.id,
            endpoints=[directory.controller],
            topic_configs=TopicConfigs(BrokerConfig.from_properties({})),
            clock=directory.clock,
            on_fault=self.faults.append,
            **options,
        )
        self.registration = Registration(
            node_id=1,
            cluster_id="cluster-A",
            incarnation_id=Uuid(b"incarnation-id-1"),
            broker_endpoints=[directory.broker],
            controller_endpoints=[directory.controller],
            log_dirs=[directory.id],
        )
        self.broker = BrokerLife(self.registration, self.channel)

    @property
    def image(self) -> MetadataImage:
        return self.loader.image

    @property
    def working(self) -> MetadataImage:
        assert self.controller.active is not None
        return self.controller.active.image

    async def start(self) -> None:
        await super().start()
        await self.channel.request(self.registration.of_controller())
        await self.broker.register()
        self.snapshotting.start()

    async def submit(self, decide: Callable[[MetadataImage], ControllerDecision[Any]]) -> Any:
        """A decision as the controller takes it, answered as the node answers it."""
        if self.controller.active is None:
            raise not_controller()
        response = await self.controller.active.decide(decide)
        await self.loader.reached(self.raft.high_watermark - 1)
        return response

    async def stop(self) -> None:
        if self.controller.active is not None:
            self.loader.clear_publishers()
            await self.broker.leave()
        await super().stop()
        self._executor.shutdown()


class Directory:
    """The only log directory of node 1."""

    now_ms = 1_794_781_234_096
    broker = Endpoint("PLAINTEXT", "127.0.0.1", 9092)
    controller = Endpoint("CONTROLLER", "127.0.0.1", 9093)

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "__cluster_metadata-0"

    def clock(self) -> int:
        return self.now_ms

    def claim(
        self,
        *others: Path,
        node_id: int = 1,
        cluster_id: str | None = "cluster-A",
        voters_are_static: bool = False,
    ) -> str:
        """Formats it, or finds it formatted."""
        log_dirs: list[LogDir] = []
        try:
            log_dirs += [LogDir(str(path), handles=FileHandles()) for path in (self.root, *others)]
            return claim_directories(
                log_dirs,
                log_dirs[0],
                node_id=node_id,
                cluster_id=cluster_id,
                controller_endpoints=[self.controller],
                now_ms=self.now_ms,
                voters_are_static=voters_are_static,
            )
        finally:
            for log_dir in log_dirs:
                log_dir.release()

    @property
    def id(self) -> Uuid:
        meta = read_meta_properties(str(self.root))
        assert meta is not None
        return meta.directory_id

    def load(self, node_id: int = 1) -> LoadedMetadata:
        return load_metadata(self.root, node_id=node_id, directory_id=self.id)

    def open(self, **options: Any) -> Member:
        return Member(self, **options)

    async def activate(self, member: Member) -> Member:
        await member.start()
        return member

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Member]:
        member = self.open(**options)
        try:
            yield await self.activate(member)
        finally:
            await member.stop()

    def files(self) -> dict[str, bytes]:
        paths = sorted(path for path in self.root.rglob("*") if path.is_file() and path.name != ".lock")
        return {str(path.relative_to(self.root)): path.read_bytes() for path in paths}

    @staticmethod
    def topic_records(name: str) -> list[Record]:
        topic_id = Uuid(name.encode().ljust(16, b"."))
        return [
            wire.TopicRecord(name=name, topic_id=topic_id),
            wire.PartitionRecord(
                topic_id=topic_id,
                partition_id=0,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
            ),
        ]

    def create_topic(self, name: str) -> Callable[[MetadataImage], ControllerDecision[str]]:
        def decide(image: MetadataImage) -> ControllerDecision[str]:
            return (
                ControllerDecision([], "exists")
                if name in image.topics
                else ControllerDecision(self.topic_records(name), "created")
            )

        return decide


@pytest.fixture
def empty(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "data")


@pytest.fixture
def directory(empty: Directory) -> Directory:
    empty.claim()
    return empty
