"""A leader that the network cuts off, with a client on its side: nothing is acknowledged there that is not kept.

The transcript: a broker leads a partition and is cut off from the others. A client that still reaches it writes with
acks=all and gets no acknowledgement; the others elect a leader, whose clients go on. When the network heals, the
former leader gives up what nobody else has, and all three logs are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.client.errors import ClientError
from barnabas.testing import Cluster
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.replication.watching import Seen, batches, describe, produce_one, read_all, wait_in_sync
from tests.support.waiting import wait_until

UNACKNOWLEDGED = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes that are brokers and controllers, with links between them that can be cut."""
    config = {
        "min.insync.replicas": 2,
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 300,
        "replica.lag.time.max.ms": 4000,
        "replica.socket.timeout.ms": 2000,
    }
    with Cluster(brokers=3, config=config, links=True) as made:
        yield made


def write_to(cluster: Cluster, broker_id: int, topic: str, value: bytes, acks: int) -> ErrorCode:
    """To this broker whoever leads, as a client does that has old metadata; the answer's error."""
    data = PartitionProduceData(index=0, records=bytes(build_batch([Record(0, 1_700_000_000_000, None, value)])))
    request = ProduceRequest(
        acks=acks, timeout_ms=1500, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    with cluster.connect(broker_id) as connection:
        answer = connection.request(request, 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.parametrize("cut", ["both ways", "what it hears"])
def test_a_leader_that_is_cut_off_acknowledges_nothing(cluster: Cluster, cut: str) -> None:
    topic = "split-" + cut.replace(" ", "-")
    cluster.create_topic(topic, 1, 3)
    wait_in_sync(cluster, topic, cluster.broker_ids)
    leader = describe(cluster, topic)[0].leader
    others = [each for each in cluster.broker_ids if each != leader]
    assert produce_one(cluster, topic, b"before") == 0

    if cut == "both ways":
        cluster.isolate(leader)
    else:
        cluster.partition(others, leader, one_way=True)
    try:
        assert write_to(cluster, leader, topic, b"lost", acks=-1) in UNACKNOWLEDGED
        wait_until(
            lambda: any(each.leader in others for each in describe_by(cluster, topic, others)),
            "one of the others leads",
        )
        reachable = ",".join(map(cluster.address, others))
        kept = produce_one(cluster, topic, b"kept", **{"bootstrap.servers": reachable})
        # The former leader has not heard of it, or has given up: it acknowledges nothing either way.
        assert write_to(cluster, leader, topic, b"lost too", acks=-1) in UNACKNOWLEDGED
        assert describe_by(cluster, topic, others)[0].leader in others
    finally:
        cluster.heal()

    # The former leader's own metadata are of before the cut, in which all are in sync with it.
    wait_until(lambda: agree(cluster, topic), "all brokers know the new leader, and all are in sync with it")
    assert not cluster.cuts
    found = read_all(cluster, topic, 1)
    assert found[0, 0] == b"before"
    assert found[0, kept] == b"kept", "what was acknowledged is where it was acknowledged"
    if cut == "what it hears":  # A fetch that was waiting at the cut is still answered: followers may have the first.
        assert {found.pop(each) for each in list(found) if each not in ((0, 0), (0, kept))} <= {b"lost"}
    assert len(found) == 2
    wait_until(lambda: len({tuple(log.items()) for log in logs(cluster, topic)}) == 1, "the logs are the same")


def agree(cluster: Cluster, topic: str) -> bool:
    seen = describe_by(cluster, topic, cluster.broker_ids)
    is_known = len(seen) == len(cluster.broker_ids) and len({each.leader for each in seen}) == 1
    return is_known and seen[0].leader >= 0 and all(sorted(each.in_sync) == cluster.broker_ids for each in seen)


def logs(cluster: Cluster, topic: str) -> list[dict[int, bytes]]:
    return [batches(cluster.nodes[each].data_dir / f"{topic}-0") for each in cluster.broker_ids]


def describe_by(cluster: Cluster, topic: str, brokers: list[int]) -> list[Seen]:
    """As each of these brokers sees it."""
    found = []
    for broker_id in brokers:
        try:
            found.append(describe(cluster, topic, broker_id)[0])
        except ClientError:
            continue
    return found
