"""What a node of a cluster refuses: strangers, doubles, and messages of the quorum that cannot be."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing import Cluster, Node, StartFailed
from barnabas.wire.apis import APIS, message_classes
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.wire.primitives import EncodeError
from barnabas.wire.schema import Request, Struct
from barnabas.wire.uuids import Uuid
from tests.support.random_messages import RandomMessages
from tests.support.reference import free_port
from tests.support.waiting import wait_until

QUORUM_APIS = (1, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 80, 81, 82)
ABSURD = (-(2**31), -1, 0, 1, 2, 2**31 - 2, 2**31 - 1)
MESSAGES_PER_VERSION = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=1) as cluster:
        yield cluster


def aim(message: Struct | Request, draw: random.Random) -> None:
    """Names the metadata log, so that the message gets past the first look, with numbers that cannot be."""
    for name in ("topic_name", "topic", "name"):
        if isinstance(getattr(message, name, None), str) and hasattr(message, "partitions"):
            setattr(message, name, "__cluster_metadata")
    if hasattr(message, "topic_id"):
        message.topic_id = Uuid(bytes(15) + b"\1")
    if hasattr(message, "cluster_id"):
        message.cluster_id = None if draw.random() < 0.8 else "another"
    for name, value in list(vars(message).items()):
        if name in ("topics", "partitions") and isinstance(value, list):
            setattr(message, name, value[:1])
            for each in value[:1]:
                aim(each, draw)
        elif name in ("partition", "partition_index"):
            setattr(message, name, 0)
        elif type(value) is int and name.endswith(("epoch", "_id", "offset", "position", "max_bytes", "wait_ms")):
            setattr(message, name, draw.choice(ABSURD))


def test_hostile_messages_never_stop_a_node(cluster: Cluster) -> None:
    draw = random.Random(20260118)
    for api_key in QUORUM_APIS:
        request_class = message_classes(api_key)[0]
        low, high = APIS[api_key].controller or (0, 0)
        for version in range(max(low, request_class.valid_versions[0]), high + 1):
            messages = RandomMessages(f"{api_key} {version}")
            for number in range(MESSAGES_PER_VERSION):
                request = messages.message(request_class, version)
                if number % 2:
                    aim(request, draw)  # type: ignore[arg-type]
                try_request(cluster, request, version)
        assert cluster.nodes[1].running, cluster.nodes[1].log()[-2000:]
    # Somebody with the newest epoch may have made the node follow a leader that is none: it leads again by itself.
    wait_until(lambda: creates(cluster, "alive"), "the controller decides again")
    log = cluster.nodes[1].log()
    assert "Traceback" not in log, log[log.index("Traceback") - 200 :][:3000]


def try_request(cluster: Cluster, request: Request, version: int) -> None:
    address = ("127.0.0.1", int(cluster.bootstrap_controllers.rpartition(":")[2]))
    settings = ClientSettings(bootstrap_servers=(address,), request_timeout_ms=300)
    try:
        with Connection(address, settings) as connection:
            connection.request(request, version)
    except (ClientError, EncodeError):
        pass


def creates(cluster: Cluster, topic: str) -> bool:
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    with cluster.connect() as connection:
        (created,) = connection.request(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)).topics
    return created.error_code in (0, 36)


def broker(cluster: Cluster, node_id: int, cluster_id: str) -> Node:
    return Node(
        {
            "node.id": node_id,
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{cluster.bootstrap_controllers}",
            "initial.broker.registration.timeout.ms": 1000,
        },
        cluster_id=cluster_id,
        timeout_s=60,
    )


def test_a_broker_of_another_cluster_is_refused(cluster: Cluster) -> None:
    stranger = broker(cluster, 7, str(Uuid.random()))
    try:
        with pytest.raises(StartFailed, match="The node cannot register"):
            stranger.start()
        assert "INCONSISTENT_CLUSTER_ID" in stranger.log()
        assert "a node of another cluster has asked and is refused" in cluster.nodes[1].log()
    finally:
        stranger.close()


def test_a_second_process_with_the_id_of_a_broker_is_refused(cluster: Cluster) -> None:
    double = broker(cluster, 101, cluster.cluster_id)
    try:
        with pytest.raises(StartFailed, match=r"another process has its node\.id"):
            double.start()
        assert "(DUPLICATE_BROKER_REGISTRATION): Another process is broker 101" in cluster.nodes[1].log()
        assert creates(cluster, "undisturbed")
    finally:
        double.close()


def test_a_second_process_with_the_id_of_a_controller_disturbs_nobody_and_is_told_of() -> None:
    """Apache Kafka refuses it neither; what it may not do is stop the quorum, or take part in it unseen."""
    with Cluster(brokers=1, controllers=3) as cluster:
        leader = cluster.controller_id()
        follower = next(each for each in cluster.controller_ids if each != leader)
        before = cluster.quorum()
        for node_id, whose_log, said in (
            (leader, None, "a peer takes this node for the leader of epoch"),
            (follower, leader, f"two processes have node.id {follower}"),
        ):
            double = controller(cluster, node_id)
            double.start()
            try:
                teller = double if whose_log is None else cluster.nodes[whose_log]
                wait_until(lambda teller=teller, said=said: said in teller.log(), said)  # type: ignore[misc]
                assert all(creates(cluster, f"undisturbed-by-{node_id}-{number}") for number in range(20))
            finally:
                double.close()
        after = cluster.quorum()
        assert before is not None
        assert after is not None
        assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)


def controller(cluster: Cluster, node_id: int) -> Node:
    voters = zip(cluster.controller_ids, cluster.bootstrap_controllers.split(","), strict=True)
    return Node(
        {
            "node.id": node_id,
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{free_port()}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in voters),
        },
        cluster_id=cluster.cluster_id,
        timeout_s=60,
    )
