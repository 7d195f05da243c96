"""A real cluster for tests: several nodes, each a process of its own, on free ports and in temporary directories.

with Cluster(brokers=3) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.kill(2)                  # as kill -9
    cluster.start(2)

With `links=True` the nodes reach each other through relays (`links.py`), and the network between them can be cut:

with Cluster(brokers=3, links=True) as cluster:
    cluster.partition(1, [2, 3])     # clients still reach all three
    cluster.heal()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing.links import Links
from barnabas.testing.node import Node, StartFailed
from barnabas.testing.process import config_text
from barnabas.testing.reserved_port import HOST, ReservedPort
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from barnabas.wire.uuids import Uuid

__all__ = ["Cluster", "StartFailed"]

VOTERS_MAX = 3
FIRST_BROKER_ID = 101
PAUSE_S = 0.05
# The listener between brokers, where they reach each other through relays.
INTERNAL = "INTERNAL"


class Cluster:
    """`brokers` nodes that are brokers, and `controllers` nodes that are controllers alone.

    Without controllers of their own the first three brokers are controllers too, with the ids 1, 2, 3 and so on. With
    them the controllers have these ids, and the brokers 101, 102, 103 and so on. `racks` are given to the brokers in
    turn. `config` takes any key of Kafka's server.properties, for all nodes. With `links` the brokers have a listener
    INTERNAL for each other, and `partition` can cut who reaches whom.
    """

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        *,
        racks: Sequence[str] = (),
        config: Mapping[str, object] | None = None,
        data_dir: str | Path | None = None,
        timeout_s: float = 60.0,
        links: bool = False,
    ) -> None:
        first = FIRST_BROKER_ID if controllers else 1
        self.broker_ids = list(range(first, first + brokers))
        self.controller_ids = list(range(1, controllers + 1)) if controllers else self.broker_ids[:VOTERS_MAX]
        self.cluster_id = str(Uuid.random())
        self.nodes: dict[int, Node] = {}
        self._racks = racks
        self._config = {key: config_text(value) for key, value in (config or {}).items()}
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._timeout_s = timeout_s
        self._ports: dict[tuple[int, str], ReservedPort] = {}
        self._links = Links(self._pids) if links else None
        self._relays: dict[tuple[int, str], int] = {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.address(broker_id) for broker_id in self.broker_ids)

    @property
    def bootstrap_controllers(self) -> str:
        return ",".join(f"{HOST}:{self._port(node_id, 'CONTROLLER')}" for node_id in self.controller_ids)

    def address(self, broker_id: int) -> str:
        return f"{HOST}:{self._port(broker_id, 'PLAINTEXT')}"

    # All nodes.

    def open(self) -> Self:
        """Starts all nodes, at the same time; raises StartFailed with a node's own sentence."""
        for node_id in dict.fromkeys([*self.controller_ids, *self.broker_ids]):
            self.nodes[node_id] = self._node(node_id)
        self.start(*self.nodes)
        return self

    def _node(self, node_id: int) -> Node:
        directory = None if self._data_dir is None else self._data_dir / str(node_id)
        return Node(
            self._properties(node_id), data_dir=directory, cluster_id=self.cluster_id, timeout_s=self._timeout_s
        )

    def close(self) -> None:
        """Stops all, brokers before controllers, and removes what is temporary."""
        controllers = [each for each in self.controller_ids if each not in self.broker_ids]
        try:
            for ids in (self.broker_ids, controllers):
                self._together(methodcaller("kill"), [each for each in ids if each in self.running])
        finally:
            self._together(methodcaller("close"), list(self.nodes))
            for port in self._ports.values():
                port.release()
            self._ports.clear()
            if self._links is not None:
                self._links.close()

    def __enter__(self) -> Self:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # Some of them.

    def start(self, *node_ids: int) -> None:
        self._together(methodcaller("start"), node_ids)

    def stop(self, *node_ids: int) -> None:
        """In order, as SIGTERM asks for it: a broker hands its partitions over first."""
        self._together(methodcaller("stop"), node_ids)

    def restart(self, *node_ids: int) -> None:
        self._together(methodcaller("restart"), node_ids)

    def kill(self, *node_ids: int) -> None:
        """As `kill -9`."""
        self._together(methodcaller("kill"), node_ids)

    def pause(self, *node_ids: int) -> None:
        """As a machine that hangs: connections stay open, and nobody answers."""
        self._together(methodcaller("pause"), node_ids)

    def resume(self, *node_ids: int) -> None:
        self._together(methodcaller("resume"), node_ids)

    # Between them.

    def partition(self, some: int | Iterable[int], others: int | Iterable[int], *, one_way: bool = False) -> None:
        """Cuts the network between these nodes; with `one_way` only what `some` send to `others` is lost.

        Connections stay open and are silent, as with a pulled cable. Clients reach all nodes as before.
        """
        links = self._cuttable()
        for source, target in self._between(some, others):
            links.cut(source, target)
            if not one_way:
                links.cut(target, source)

    def isolate(self, *node_ids: int) -> None:
        """Cuts these nodes off from all others."""
        self.partition(node_ids, [each for each in self.nodes if each not in node_ids])

    def heal(self, some: int | Iterable[int] | None = None, others: int | Iterable[int] | None = None) -> None:
        """Undoes every cut, or those between these nodes in both directions."""
        links = self._cuttable()
        everybody = list(self.nodes)
        for pair in self._between(everybody if some is None else some, everybody if others is None else others):
            for source, target in (pair, pair[::-1]):
                links.heal(source, target)

    @property
    def cuts(self) -> set[tuple[int, int]]:
        """Who sends to whom in vain."""
        return self._links.cuts if self._links is not None else set()

    def _cuttable(self) -> Links:
        if self._links is None:
            raise RuntimeError("the nodes reach each other directly; Cluster(links=True) puts relays between them")
        return self._links

    def _between(self, some: int | Iterable[int], others: int | Iterable[int]) -> list[tuple[int, int]]:
        sources = [some] if isinstance(some, int) else list(some)
        targets = [others] if isinstance(others, int) else list(others)
        if unknown := {*sources, *targets} - set(self.nodes):
            raise ValueError(f"no node of the cluster: {', '.join(map(str, sorted(unknown)))}")
        return [(source, target) for source in sources for target in targets if source != target]

    def _pids(self) -> dict[int, int]:
        """Also of those that are being started."""
        return {node_id: node.last_pid for node_id, node in list(self.nodes.items()) if node.last_pid is not None}

    def _together(self, act: Callable[[Node], object], node_ids: Iterable[int]) -> None:
        nodes = [self.nodes[node_id] for node_id in node_ids]
        if nodes:
            with ThreadPoolExecutor(len(nodes)) as threads:
                list(threads.map(act, nodes))

    # What one wants to know.

    @property
    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.running]

    def connect(self, broker_id: int | None = None) -> Connection:
        """A connection to a broker, by default the first that runs; it sends the protocol's messages as they are."""
        chosen = broker_id if broker_id is not None else next(each for each in self.running if each in self.broker_ids)
        return self._connection((HOST, self._port(chosen, "PLAINTEXT")))

    def connect_controller(self, node_id: int) -> Connection:
        return self._connection((HOST, self._port(node_id, "CONTROLLER")))

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Raises KafkaError, for instance if it is there already."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=config_text(value)) for key, value in (config or {}).items()],
        )
        with self.connect() as connection:
            request = CreateTopicsRequest(topics=[topic], timeout_ms=int(self._timeout_s * 1000))
            (created,) = connection.request(request).topics
        if created.error_code:
            raise KafkaError(ErrorCode(created.error_code), created.error_message or f"{name} was not created")

    def quorum(self) -> ResponsePartitionData | None:
        """What the leader of the quorum says about it; None while nobody leads."""
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        for node_id in self.controller_ids:
            if not self.nodes[node_id].running or self.nodes[node_id].paused:
                continue
            try:
                with self.connect_controller(node_id) as connection:
                    answer = connection.request(DescribeQuorumRequest(topics=[topic]))
            except ClientError:
                continue
            if not answer.error_code and answer.topics and not answer.topics[0].partitions[0].error_code:
                found: ResponsePartitionData = answer.topics[0].partitions[0]
                return found
        return None

    def controller_id(self, *, other_than: int | None = None) -> int:
        """The active controller; waits for one, or for another one than this."""
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            found = self.quorum()
            if found is not None and found.leader_id != other_than:
                return found.leader_id
            time.sleep(PAUSE_S)
        raise TimeoutError(f"no controller leads within {self._timeout_s} s")

    def _connection(self, address: tuple[str, int]) -> Connection:
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def _properties(self, node_id: int) -> dict[str, str]:
        is_broker, is_controller = node_id in self.broker_ids, node_id in self.controller_ids
        internal = [INTERNAL] * (is_broker and self._links is not None)
        names = ["PLAINTEXT"] * is_broker + internal + ["CONTROLLER"] * is_controller
        count = len(self.broker_ids)
        properties = {
            "node.id": str(node_id),
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
            "listeners": ",".join(f"{name}://{HOST}:{self._port(node_id, name)}" for name in names),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{each}@{HOST}:{self._peers_port(each, 'CONTROLLER')}" for each in self.controller_ids
            ),
            "default.replication.factor": str(min(3, count)),
            "offsets.topic.replication.factor": str(min(3, count)),
            "transaction.state.log.replication.factor": str(min(3, count)),
            "transaction.state.log.min.isr": str(min(2, count)),
            "share.coordinator.state.topic.replication.factor": str(min(3, count)),
            "share.coordinator.state.topic.min.isr": str(min(2, count)),
        }
        if is_broker and self._racks:
            rack = self._racks[self.broker_ids.index(node_id) % len(self._racks)]
            properties["broker.rack"] = rack
        if self._links is not None:
            ports = {name: self._peers_port(node_id, name) for name in names if name != "PLAINTEXT"}
            known = {name: ports.get(name) or self._port(node_id, name) for name in names}
            properties["advertised.listeners"] = ",".join(f"{name}://{HOST}:{port}" for name, port in known.items())
            properties["listener.security.protocol.map"] = ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", INTERNAL, "CONTROLLER")
            )
        if internal:
            properties["inter.broker.listener.name"] = INTERNAL
        return properties | self._config

    def _peers_port(self, node_id: int, listener: str) -> int:
        """Where the other nodes reach this listener."""
        if self._links is None:
            return self._port(node_id, listener)
        key = (node_id, listener)
        if key not in self._relays:
            self._relays[key] = self._links.add(node_id, self._port(node_id, listener))
        return self._relays[key]

    def _port(self, node_id: int, listener: str) -> int:
        key = (node_id, listener)
        if key not in self._ports:
            self._ports[key] = ReservedPort()
        return self._ports[key].number
