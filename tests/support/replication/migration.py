"""A cluster whose nodes are replaced one and all: three of ours by three of Apache Kafka's, or the other way round.

All nodes are brokers and controllers, the voters are in the log. What is done to the cluster is done by the tools, with
the commands of docs/migration.md.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from barnabas.cli.run import run_tool
from barnabas.client.connection import Connection
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.uuids import Uuid
from tests.support import reference
from tests.support.replication.watching import describe
from tests.support.waiting import wait_until

HOST = "127.0.0.1"
LIMIT_S = 180.0
RETRY_S = 1.0

Member = Node | reference.ApacheKafka


class Migration:
    """Looks like a `barnabas.testing.Cluster` from outside: `broker_ids` are those that hold the partitions."""

    def __init__(self, root: Path, ours: Sequence[int], kafkas: Sequence[int], config: Mapping[str, str]) -> None:
        self.root = root
        self.cluster_id = str(Uuid.random())
        self.ours, self.kafkas = list(ours), list(kafkas)
        self.broker_ids = self.ours
        self._config = dict(config)
        everybody = [*self.ours, *self.kafkas]
        self._ports = {node_id: (reference.free_port(), reference.free_port()) for node_id in everybody}
        self._lives = dict.fromkeys(everybody, 0)
        self.nodes: dict[int, Member] = {}

    # The cluster as clients and the judge see it

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{clients}" for clients, _ in self._ports.values())

    def connect(self, broker_id: int | None = None) -> Connection:
        address = (HOST, self._ports[self.broker_ids[0] if broker_id is None else broker_id][0])
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    def create_topic(self, name: str, partitions: int, replication_factor: int) -> None:
        assert replication_factor == len(self.broker_ids)
        wanted = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=turned(self.broker_ids, index))
                for index in range(partitions)
            ],
        )
        with self.connect() as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message

    def heal(self) -> None:
        """Nothing was cut."""

    # Nodes

    def properties(self, node_id: int) -> dict[str, str]:
        clients, quorum = self._ports[node_id]
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{clients},CONTROLLER://{HOST}:{quorum}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for _, port in self._ports.values()),
            "log.dirs": str(self._data_dir(node_id)),
            **self._config,
        }

    def _directory(self, node_id: int) -> Path:
        """Each time a node joins it is a new one."""
        return self.root / f"node-{node_id}-{self._lives[node_id]}"

    def _data_dir(self, node_id: int) -> Path:
        return self._directory(node_id) / "data"

    def _config_file(self, node_id: int) -> Path:
        path = self._directory(node_id) / "node.properties"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}={text}\n" for key, text in self.properties(node_id).items()))
        return path

    def begin(self) -> None:
        """Ours, with a quorum of all of them."""
        voters = ",".join(f"{each}@{HOST}:{self._ports[each][1]}:{Uuid.random()}" for each in self.ours)
        for node_id in self.ours:
            self._format(node_id, "--initial-controllers", voters)
        self._launch(self.ours)

    def join(self, node_ids: Sequence[int]) -> None:
        """New nodes: brokers without partitions, and controllers that do not vote yet."""
        for node_id in node_ids:
            self._lives[node_id] += 1
            self._format(node_id, "--no-initial-controllers")
        self._launch(node_ids)

    def _format(self, node_id: int, *how: str) -> None:
        config = str(self._config_file(node_id))
        arguments = ("format", "--cluster-id", self.cluster_id, "--config", config, *how)
        if node_id in self.ours:
            tool("storage", *arguments)
        else:
            done = reference.run_tool("kafka-storage", *arguments, timeout_s=LIMIT_S)
            assert done.returncode == 0, done.stdout + done.stderr

    def _launch(self, node_ids: Sequence[int]) -> None:
        for node_id in node_ids:
            properties = self.properties(node_id)
            if node_id in self.kafkas:
                kafka = reference.ApacheKafka(
                    directory=self._directory(node_id),
                    port=self._ports[node_id][0],
                    controller_port=self._ports[node_id][1],
                    cluster_id=self.cluster_id,
                    properties=properties,
                    start_timeout_s=LIMIT_S,
                )
                self.nodes[node_id] = kafka
                kafka.launch()
            else:
                data_dir = Path(properties.pop("log.dirs"))
                self.nodes[node_id] = Node(properties, data_dir=data_dir, timeout_s=LIMIT_S, cluster_id=self.cluster_id)
        if set(node_ids) <= set(self.ours):
            start_together([self.nodes[each].start for each in node_ids])
        wait_until(lambda: set(node_ids) <= self.members(), f"{node_ids} are members", LIMIT_S)

    def members(self) -> set[int]:
        with self.connect() as connection:
            answer = connection.request(MetadataRequest(topics=[]))
        return {each.node_id for each in answer.brokers}

    def retire(self, node_ids: Sequence[int]) -> None:
        for node_id in node_ids:
            node = self.nodes.pop(node_id)
            assert node.running, node.log()[-4000:]
            node.stop()
            tool("cluster", "--bootstrap-server", self._present(), "unregister", "--id", str(node_id))

    def _present(self) -> str:
        return ",".join(f"{HOST}:{self._ports[each][0]}" for each, node in self.nodes.items() if node.running)

    # Voters

    def add_voter(self, node_id: int) -> None:
        self._change_voters("add-controller", config=node_id)

    def remove_voter(self, node_id: int) -> None:
        lines = (self._data_dir(node_id) / "meta.properties").read_text().splitlines()
        directory = next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))
        self._change_voters(
            "remove-controller", "--controller-id", str(node_id), "--controller-directory-id", directory
        )

    def _change_voters(self, *arguments: str, config: int | None = None) -> None:
        """Refused while the former change is not committed, or the new voter has not caught up: then once more."""
        more = [] if config is None else ["--command-config", str(self._config_file(config))]
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                tool("metadata-quorum", "--bootstrap-server", self._present(), *more, *arguments)
                return
            except AssertionError as refused:
                done = "DUPLICATE_VOTER" in str(refused) or "VOTER_NOT_FOUND" in str(refused)
                if done and deadline - time.monotonic() < LIMIT_S - RETRY_S:
                    return  # an answer was lost
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)

    # Partitions

    def move_all(self, broker_ids: Sequence[int]) -> None:
        """Every partition of every topic, the internal ones too, to these brokers."""
        with self.connect() as connection:
            topics = {
                each.name: len(each.partitions) for each in connection.request(MetadataRequest(topics=None)).topics
            }
        partitions = [
            {"topic": topic, "partition": index, "replicas": turned(broker_ids, index)}
            for topic, count in topics.items()
            for index in range(count)
        ]
        plan = self.root / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        words = ("--bootstrap-server", self._present(), "--reassignment-json-file", str(plan))
        tool("reassign-partitions", *words, "--execute")
        self.broker_ids = list(broker_ids)
        wait_until(lambda: self._are_at(list(topics), broker_ids), f"all partitions are on {broker_ids}", LIMIT_S)
        assert "still in progress" not in tool("reassign-partitions", *words, "--verify")

    def _are_at(self, topics: list[str], broker_ids: Sequence[int]) -> bool:
        time.sleep(RETRY_S / 4)
        wanted = sorted(broker_ids)
        return all(
            sorted(each.replicas) == sorted(each.in_sync) == wanted and each.leader in wanted
            for topic in topics
            for each in describe(self, topic).values()
        )

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.close()


def turned(broker_ids: Sequence[int], by: int) -> list[int]:
    """Each leads its share."""
    place = by % len(broker_ids)
    return [*broker_ids[place:], *broker_ids[:place]]


def tool(name: str, *arguments: str) -> str:
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = run_tool(name, arguments)
    assert code == 0, said.getvalue()
    return said.getvalue()


def start_together(starts: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(starts)) as threads:
        for started in [threads.submit(start) for start in starts]:
            started.result()
