"""Up to three nodes with both roles, whose voters are in the log: formatted, started, added and removed by tools."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from barnabas.cli.run import run_tool
from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.testing.reserved_port import ReservedPort
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from barnabas.wire.uuids import Uuid
from tests.support.waiting import wait_until

HOST = "127.0.0.1"


class Quorum:
    """Nodes 1 to 3 with both roles, whose bootstrap servers are all three."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster_id = str(Uuid.random())
        self.reserved = {(node_id, kind): ReservedPort() for node_id in (1, 2, 3) for kind in ("clients", "quorum")}
        self.nodes: dict[int, Node] = {}

    def port(self, node_id: int, kind: str = "clients") -> int:
        return self.reserved[node_id, kind].number

    def properties(self, node_id: int) -> dict[str, str]:
        servers = ",".join(f"{HOST}:{self.port(each, 'quorum')}" for each in (1, 2, 3))
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{HOST}:{self.port(node_id)},CONTROLLER://{HOST}:{self.port(node_id, 'quorum')}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": str(self.root / f"data-{node_id}"),
        }

    # As a client sees it.

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port(node_id)}" for node_id in self.broker_ids)

    @property
    def broker_ids(self) -> list[int]:
        return [1, 2, 3]

    def connect(self, broker_id: int | None = None) -> Connection:
        address = (HOST, self.port(1 if broker_id is None else broker_id))
        return Connection(address, ClientSettings(bootstrap_servers=(address,)))

    # What is done to it.

    def config_file(self, node_id: int) -> Path:
        path = self.root / f"{node_id}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in self.properties(node_id).items()))
        return path

    def tool(self, *arguments: str, fails: bool = False) -> str:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = run_tool(arguments[0], arguments[1:])
        assert (code != 0) is fails, said.getvalue()
        return said.getvalue()

    def format(self, node_id: int, *how: str) -> None:
        config = str(self.config_file(node_id))
        self.tool("storage", "format", "--cluster-id", self.cluster_id, "--config", config, *how)

    def start(self, node_id: int, **more: str) -> None:
        properties = self.properties(node_id) | {key.replace("_", "."): text for key, text in more.items()}
        data_dir = Path(properties.pop("log.dirs"))
        node = Node(properties, data_dir=data_dir, timeout_s=60, cluster_id=self.cluster_id)
        self.nodes[node_id] = node
        node.start()

    def describe(self) -> ResponsePartitionData | None:
        topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        for node_id, node in self.nodes.items():
            if not node.running:
                continue
            address = (HOST, self.port(node_id, "quorum"))
            try:
                with Connection(address, ClientSettings(bootstrap_servers=(address,))) as connection:
                    answer = connection.request(DescribeQuorumRequest(topics=[topic]))
            except ClientError:
                continue
            if answer.topics and not answer.topics[0].partitions[0].error_code:
                found: ResponsePartitionData = answer.topics[0].partitions[0]
                return found
        return None

    def voters(self) -> list[int]:
        found = self.describe()
        return [] if found is None else sorted(each.replica_id for each in found.current_voters)

    def wait_for_voters(self, *expected: int) -> None:
        wait_until(lambda: self.voters() == list(expected), f"the voters are {expected}")

    def create(self, topic: str, by: int) -> None:
        address = (HOST, self.port(by))
        wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        with Connection(address, ClientSettings(bootstrap_servers=(address,))) as connection:
            (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert created.error_code == 0, created.error_message

    def change_voters(self, *arguments: str, config: int | None = None, fails: bool = False) -> str:
        servers = ",".join(f"{HOST}:{self.port(each)}" for each, node in self.nodes.items() if node.running)
        more = [] if config is None else ["--command-config", str(self.config_file(config))]
        return self.tool("metadata-quorum", "--bootstrap-server", servers, *more, *arguments, fails=fails)

    def directory_id(self, node_id: int) -> str:
        lines = (self.root / f"data-{node_id}" / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    def close(self) -> None:
        for node in self.nodes.values():
            if node.running:
                node.kill()
            node.close()
        for port in self.reserved.values():
            port.release()
