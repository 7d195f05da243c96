"""Two voters with one id, one of ours and one of Apache Kafka's: told of, and the quorum goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.testing import Cluster, Node
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support import reference
from tests.support.reference import ApacheKafka, free_port
from tests.support.waiting import wait_until

LIMIT_S = 120.0


@pytest.fixture(autouse=True)
def _needs_kafka() -> None:
    if reason := reference.available():
        pytest.skip(reason)


def kafka_of(properties: dict[str, str], directory: Path, cluster_id: str) -> ApacheKafka:
    port = int(properties["listeners"].rpartition(":")[2])
    made = ApacheKafka(
        directory=directory, port=port, controller_port=port, properties=properties, cluster_id=cluster_id
    )
    made.format()
    made.launch()
    return made


def creates(cluster: Cluster, topic: str) -> bool:
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    with cluster.connect() as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)).topics
    return bool(created.error_code == 0)


@pytest.mark.timeout(300)
def test_a_kafka_process_with_the_id_of_our_voter_is_told_of_and_the_quorum_goes_on(tmp_path: Path) -> None:
    """No voter refuses it, whose ever the nodes are: what it may not do is change who leads, or go unseen."""
    with Cluster(brokers=1, controllers=3) as cluster:
        before = cluster.quorum()
        assert before is not None
        follower = next(each for each in cluster.controller_ids if each != before.leader_id)
        voters = zip(cluster.controller_ids, cluster.bootstrap_controllers.split(","), strict=True)
        properties = {
            "node.id": str(follower),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{free_port()}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters),
        }
        double = kafka_of(properties, tmp_path, cluster.cluster_id)
        leader = cluster.nodes[before.leader_id]
        try:
            said = f"two processes have node.id {follower}"
            wait_until(lambda: said in leader.log(), said, LIMIT_S)
            assert all(creates(cluster, f"undisturbed-{number}") for number in range(20))
        finally:
            double.kill()
        after = cluster.quorum()
        assert after is not None
        assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)


@pytest.mark.timeout(300)
def test_a_process_of_ours_with_the_id_of_kafkas_voter_is_told_of_and_the_quorum_goes_on(tmp_path: Path) -> None:
    """By the leader if that is ours; if it is the Apache Kafka node itself, by the double, which is taken for it."""
    ports = {node_id: free_port() for node_id in (1, 2, 3)}
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in ports.items())

    def properties(node_id: int, port: int) -> dict[str, str]:
        return {
            "node.id": str(node_id),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
        }

    def ours(node_id: int, port: int, name: str) -> Node:
        given = properties(node_id, port)
        return Node(given, data_dir=tmp_path / name, cluster_id=reference.CLUSTER_ID, timeout_s=90)

    nodes = {node_id: ours(node_id, ports[node_id], str(node_id)) for node_id in (1, 2)}
    double = ours(3, free_port(), "double")
    kafka = kafka_of(properties(3, ports[3]), tmp_path / "3", reference.CLUSTER_ID)
    try:
        with ThreadPoolExecutor(len(nodes)) as threads:
            list(threads.map(Node.start, nodes.values()))
        double.start()

        def is_told() -> bool:
            logs = [node.log() for node in nodes.values()]
            return any("two processes have node.id 3" in each for each in logs) or "takes this node for the leader" in (
                double.log()
            )

        wait_until(is_told, "somebody has told of the double", LIMIT_S)
        assert kafka.running
    finally:
        for node in (double, *nodes.values()):
            node.close()
        kafka.kill()
