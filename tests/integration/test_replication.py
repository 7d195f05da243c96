"""Partitions with three replicas on three brokers: what was acknowledged stays, whoever stops, and is there on all."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from barnabas.testing import Cluster
from barnabas.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.reference_batches import crafted_batch
from tests.support.replication.watching import (
    Acknowledged,
    describe,
    produce_one,
    read_all,
    wait_in_sync,
    wait_led,
)
from tests.support.waiting import wait_until

PARTITIONS = 6
T = TypeVar("T")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers, and a controller that is not stopped with them."""
    config = {
        "min.insync.replicas": 2,
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 300,
        "replica.lag.time.max.ms": 4000,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
        "leader.imbalance.check.interval.seconds": 2,
        "unclean.leader.election.interval.ms": 1000,
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
    with Cluster(brokers=3, controllers=1, racks=("a", "b", "c"), config=config) as found:
        yield found


def test_a_leader_stops_and_starts_and_the_others_go_on(cluster: Cluster) -> None:
    cluster.create_topic("many_reps", PARTITIONS, 3)
    wait_in_sync(cluster, "many_reps", cluster.broker_ids)
    leader = describe(cluster, "many_reps")[0].leader
    with Acknowledged(cluster, "many_reps", PARTITIONS) as producer:
        producer.goes_on()
        cluster.stop(leader)
        wait_led(cluster, "many_reps", by_none_of=[leader])
        producer.goes_on()
        left = [each for each in cluster.broker_ids if each != leader]
        wait_in_sync(cluster, "many_reps", left)
        cluster.start(leader)
        wait_in_sync(cluster, "many_reps", cluster.broker_ids)
        producer.goes_on()
    assert not producer.failed
    found = read_all(cluster, "many_reps", PARTITIONS)
    assert found == producer.acknowledged, "each record once, where it was acknowledged"


def test_killed_brokers_take_nothing_along_that_was_acknowledged(cluster: Cluster) -> None:
    cluster.create_topic("kills", PARTITIONS, 3)
    wait_in_sync(cluster, "kills", cluster.broker_ids)
    with Acknowledged(cluster, "kills", PARTITIONS) as producer:
        for broker_id in cluster.broker_ids[:2]:
            producer.goes_on()
            cluster.kill(broker_id)
            wait_led(cluster, "kills", by_none_of=[broker_id])
            producer.goes_on()
            cluster.start(broker_id)
            wait_in_sync(cluster, "kills", cluster.broker_ids)
    assert not producer.failed
    wait_until(
        lambda: read_all(cluster, "kills", PARTITIONS) == producer.acknowledged,
        "every record is there, where it was acknowledged",
    )


def test_numbers_of_the_console_producer_keep_their_order_while_brokers_stop_and_die(cluster: Cluster) -> None:
    """As `seq 1000000 | kafka-console-producer` of the courses. That tool gives up after three tries by itself."""
    cluster.create_topic("numbers", PARTITIONS, 3)
    wait_in_sync(cluster, "numbers", cluster.broker_ids)
    command = [*console_command(cluster, "numbers"), "--message-send-max-retries", "1000000"]
    stopped, killed = cluster.broker_ids[:2]
    enough = threading.Event()
    typed: list[int] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as tool:
        typing = threading.Thread(target=type_numbers, args=(tool, typed, enough))
        typing.start()
        try:
            wait_for_more(cluster, "numbers")
            cluster.stop(stopped)
            wait_for_more(cluster, "numbers")
            cluster.start(stopped)
            wait_in_sync(cluster, "numbers", cluster.broker_ids)
            cluster.kill(killed)
            wait_led(cluster, "numbers", by_none_of=[killed])
            wait_for_more(cluster, "numbers")
            cluster.start(killed)
        finally:
            enough.set()
            typing.join()
        assert tool.wait(120) == 0
    wait_in_sync(cluster, "numbers", cluster.broker_ids)
    found = read_all(cluster, "numbers", PARTITIONS)
    for partition in range(PARTITIONS):
        values = [int(found[key]) for key in sorted(found) if key[0] == partition]
        assert values == sorted(values), "in the order in which they were typed"
    assert sorted(int(value) for value in found.values()) == typed, "each is there once"


def console_command(cluster: Cluster, topic: str) -> list[str]:
    arguments = ["--bootstrap-server", cluster.bootstrap_servers, "--topic", topic]
    return [sys.executable, "-m", "barnabas", "console-producer", *arguments]


def console_producer(cluster: Cluster, topic: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        console_command(cluster, topic), input=text, capture_output=True, text=True, timeout=120, check=False
    )


def type_numbers(tool: subprocess.Popen[str], typed: list[int], enough: threading.Event) -> None:
    assert tool.stdin is not None
    with tool.stdin as lines:
        while not enough.wait(0.005):
            typed.append(len(typed) + 1)
            lines.write(f"{typed[-1]}\n")
            lines.flush()


def wait_for_more(cluster: Cluster, topic: str, count: int = 100) -> None:
    """So many records are committed from now on."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "counts"})
    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    counts: list[int] = []

    def has_more() -> bool:
        try:
            counts.append(sum(consumer.get_watermark_offsets(each, 10)[1] for each in partitions))
        except KafkaException:
            return False  # a leader is just moving
        return counts[-1] >= counts[0] + count

    try:
        wait_until(has_more, f"{count} records more are in {topic}", limit_s=120)
    finally:
        consumer.close()


def test_with_one_broker_left_acks_all_is_refused_and_acks_1_goes_on(cluster: Cluster) -> None:
    cluster.create_topic("alone", 1, 3)
    wait_in_sync(cluster, "alone", cluster.broker_ids)
    left, *others = [describe(cluster, "alone")[0].leader, *cluster.broker_ids]
    others = [each for each in others if each != left]
    committed = produce_one(cluster, "alone", b"committed")
    cluster.stop(*others)
    try:
        wait_in_sync(cluster, "alone", [left])
        quick = {"message.timeout.ms": 3000, "retries": 0}
        refused = produce_one(cluster, "alone", b"refused", acks="all", **quick)
        assert isinstance(refused, KafkaError)
        assert refused.code() in (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._MSG_TIMED_OUT)
        told = console_producer(cluster, "alone", "refused too\n")
        assert told.returncode == 1
        assert "NOT_ENOUGH_REPLICAS" in told.stderr
        assert produce_one(cluster, "alone", b"lonely", acks="1") == 1
        assert read_all(cluster, "alone", 1) == {(0, committed): b"committed"}, "what is not committed is not read"
    finally:
        cluster.start(*others)
    wait_in_sync(cluster, "alone", cluster.broker_ids)
    wait_until(
        lambda: read_all(cluster, "alone", 1) == {(0, 0): b"committed", (0, 1): b"lonely"},
        "every record is there, where it was acknowledged",
    )


def test_a_follower_whose_directory_was_emptied_copies_everything_again(cluster: Cluster) -> None:
    cluster.create_topic("copied", 2, 3)
    wait_in_sync(cluster, "copied", cluster.broker_ids)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for index in range(2000):
        producer.produce("copied", b"x%d" % index, partition=index % 2)
    assert producer.flush(60) == 0
    emptied = describe(cluster, "copied")[0].in_sync[-1]
    cluster.stop(emptied)
    for directory in (cluster.nodes[emptied].data_dir).glob("copied-*"):
        shutil.rmtree(directory)
    cluster.start(emptied)
    wait_in_sync(cluster, "copied", cluster.broker_ids)
    others = [each for each in cluster.broker_ids if each != emptied]
    expected = read_all(cluster, "copied", 2)
    assert len(expected) == 2000
    cluster.stop(*others[:1])
    try:
        wait_led(cluster, "copied", by_none_of=others[:1])
        wait_until(
            lambda: read_all(cluster, "copied", 2) == expected, "every record is there, where it was acknowledged"
        )
    finally:
        cluster.start(*others[:1])
    wait_in_sync(cluster, "copied", cluster.broker_ids)


def test_a_node_whose_disk_was_replaced_copies_every_replica_again(cluster: Cluster) -> None:
    """Another directory is another disk to the cluster: what it had lay on the former one, and stayed offline."""
    cluster.create_topic("replaced", 3, 3)
    cluster.create_topic("unreplicated", 3, 1)
    wait_in_sync(cluster, "replaced", cluster.broker_ids)
    for index in range(3):
        assert produce_one(cluster, "replaced", b"x%d" % index, index) == 0
        assert produce_one(cluster, "unreplicated", b"x%d" % index, index, acks="1") == 0
    victim = cluster.broker_ids[-1]
    others = [each for each in cluster.broker_ids if each != victim]
    cluster.kill(victim)
    shutil.rmtree(cluster.nodes[victim].data_dir)
    cluster.start(victim)
    wait_in_sync(cluster, "replaced", cluster.broker_ids)
    (lost,) = (each for each in describe(cluster, "unreplicated").values() if each.replicas == [victim])
    assert lost.leader == -1, "nobody takes the empty disk for a partition without records"
    assert not list(cluster.nodes[victim].data_dir.glob("unreplicated-*"))
    cluster.kill(others[0])
    try:
        wait_led(cluster, "replaced", by_none_of=others[:1])
        assert read_all(cluster, "replaced", 3) == {(index, 0): b"x%d" % index for index in range(3)}
    finally:
        cluster.start(others[0])
    wait_in_sync(cluster, "replaced", cluster.broker_ids)


def test_a_replica_follows_a_log_that_starts_within_a_batch(cluster: Cluster) -> None:
    """Records are deleted up to the middle of a batch while a follower is away, whose log ends before it."""
    cluster.create_topic("begun", 1, 3)
    wait_in_sync(cluster, "begun", cluster.broker_ids)
    leader = describe(cluster, "begun")[0].leader
    follower = next(each for each in cluster.broker_ids if each != leader)
    data = PartitionProduceData(index=0, records=crafted_batch([(b"k", b"v")] * 100))
    produce = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="begun", partition_data=[data])]
    )
    for start, end in ((17, 100), (117, 200)):
        cluster.stop(follower)
        gone = DeleteRecordsTopic(name="begun", partitions=[DeleteRecordsPartition(partition_index=0, offset=start)])
        with cluster.connect(leader) as connection:
            assert connection.request(produce, 8).responses[0].partition_responses[0].error_code == 0
            deleted = connection.request(DeleteRecordsRequest(topics=[gone], timeout_ms=30_000), 2)
        assert deleted.topics[0].partitions[0].low_watermark == start
        cluster.start(follower)
        wait_in_sync(cluster, "begun", cluster.broker_ids)
        wait_until(lambda start=start, end=end: own_offsets(cluster, "begun", follower) == [start, end])


def own_offsets(cluster: Cluster, topic: str, broker_id: int) -> list[int]:
    """Where the broker's own replica begins and ends."""
    found = []
    with cluster.connect(broker_id) as connection:
        for timestamp in (-2, -1):
            asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(timestamp=timestamp)])
            answer = connection.request(ListOffsetsRequest(replica_id=-2, topics=[asked]), 8)
            found.append(answer.topics[0].partitions[0].offset)
    return found


def ask_coordinator(ask: Callable[[], T]) -> T:
    """librdkafka leaves it to the application to ask again when the coordinator has moved, here to the preferred leader
    that is back."""
    answers: list[T] = []

    def is_answered() -> bool:
        try:
            answers.append(ask())
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                raise
        return bool(answers)

    wait_until(is_answered, "the coordinator answers")
    return answers[0]


def test_groups_and_transactions_go_on_when_their_coordinators_are_killed(cluster: Cluster) -> None:
    cluster.create_topic("input", 3, 3)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": "copier",
            "transaction.timeout.ms": 60_000,
        }
    )
    producer.init_transactions(60)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe(["input"])
    seen: list[bytes] = []

    def transaction(number: int, *, commits: bool = True) -> None:
        producer.begin_transaction()
        for partition in range(3):
            producer.produce("input", b"%d-%d-%d" % (number, partition, commits), partition=partition)
        (producer.commit_transaction if commits else producer.abort_transaction)(120)

    def read_until(count: int) -> None:
        def done() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen.append(message.value())
            return len(seen) >= count

        wait_until(done, f"{count} committed records are read", limit_s=120)
        ask_coordinator(lambda: consumer.commit(asynchronous=False))

    transaction(0)
    transaction(1, commits=False)
    read_until(3)
    for number, topic in ((2, "__transaction_state"), (3, "__consumer_offsets")):
        killed = describe(cluster, topic)[0].leader
        cluster.kill(killed)
        wait_led(cluster, topic, by_none_of=[killed])
        transaction(number)
        read_until(3 * number)
        cluster.start(killed)
        wait_in_sync(cluster, topic, cluster.broker_ids)
    assert sorted(seen) == sorted(b"%d-%d-1" % (number, index) for number in (0, 2, 3) for index in range(3))
    asked = [TopicPartition("input", index) for index in range(3)]
    committed = ask_coordinator(lambda: consumer.committed(asked, timeout=60))
    assert all(each.offset > 0 for each in committed)
    consumer.close()


def reassign(cluster: Cluster, topic: str, partition: int, replicas: list[int]) -> None:
    asked = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name=topic, partitions=[asked])]
    )
    with cluster.connect() as connection:
        answer = connection.request(request)
    assert (answer.error_code, [each.error_code for each in answer.responses[0].partitions]) == (0, [0])


def wait_replicas(cluster: Cluster, topic: str, target: list[int]) -> None:
    def are_there() -> bool:
        found = describe(cluster, topic)[0]
        return found.replicas == target and sorted(found.in_sync) == sorted(target)

    wait_until(are_there, f"the replicas of {topic} are {target}")


def test_replicas_are_added_moved_and_removed_under_load(cluster: Cluster) -> None:
    first, second, third = cluster.broker_ids
    cluster.create_topic("moved", 1, 1, {"min.insync.replicas": 1})
    wait_led(cluster, "moved")
    before = describe(cluster, "moved")[0].leader
    others = [each for each in (first, second, third) if each != before]
    with Acknowledged(cluster, "moved", 1) as producer:
        producer.goes_on()
        for target in ([before, *others], others, [others[1]]):
            reassign(cluster, "moved", 0, target)
            wait_replicas(cluster, "moved", target)
            assert describe(cluster, "moved")[0].leader in target
            producer.goes_on()
    assert not producer.failed
    wait_until(
        lambda: read_all(cluster, "moved", 1) == producer.acknowledged,
        "every record is there, where it was acknowledged",
    )
    assert not list(cluster.nodes[before].data_dir.glob("moved-0"))


def test_the_preferred_replica_leads_again_by_itself(cluster: Cluster) -> None:
    cluster.create_topic("preferred", 3, 3)
    wait_led(cluster, "preferred")
    away = cluster.broker_ids[0]
    cluster.restart(away)
    wait_in_sync(cluster, "preferred", cluster.broker_ids)
    wait_until(
        lambda: all(each.leader == each.replicas[0] for each in describe(cluster, "preferred").values()),
        "the preferred replicas lead",
    )


@pytest.mark.parametrize("unclean", [False, True])
def test_without_any_replica_in_sync_a_partition_waits_unless_it_may_lose_records(
    cluster: Cluster, unclean: bool
) -> None:
    topic = f"unclean-{unclean}".lower()
    config = {"unclean.leader.election.enable": unclean, "min.insync.replicas": 1}
    cluster.create_topic(topic, 1, 2, config)
    wait_led(cluster, topic)
    leader = describe(cluster, topic)[0].leader
    (follower,) = [each for each in describe(cluster, topic)[0].replicas if each != leader]
    (witness,) = [each for each in cluster.broker_ids if each not in (leader, follower)]
    produce_one(cluster, topic, b"on both")
    cluster.stop(follower)
    wait_until(lambda: describe(cluster, topic, witness)[0].in_sync == [leader], "the follower is out")
    assert produce_one(cluster, topic, b"on the leader alone", acks="all") == 1
    cluster.stop(leader)
    try:
        cluster.start(follower)
        if unclean:
            wait_until(lambda: describe(cluster, topic, witness)[0].leader == follower, "the follower leads")
            wait_until(
                lambda: read_all(cluster, topic, 1) == {(0, 0): b"on both"},
                "every record is there, where it was acknowledged",
            )
        else:
            wait_until(lambda: describe(cluster, topic, witness)[0].leader == -1, "nobody leads")
    finally:
        cluster.start(leader)
    wait_until(lambda: len(describe(cluster, topic, witness)[0].in_sync) == 2, "both are in sync")
    lost = {} if unclean else {(0, 1): b"on the leader alone"}
    wait_until(
        lambda: read_all(cluster, topic, 1) == {(0, 0): b"on both"} | lost,
        "every record is there, where it was acknowledged",
    )


def test_a_consumer_reads_from_the_replica_of_its_rack(cluster: Cluster) -> None:
    cluster.create_topic("near", 1, 3)
    wait_in_sync(cluster, "near", cluster.broker_ids)
    for index in range(3):
        produce_one(cluster, "near", b"%d" % index, acks="all")
    leader = describe(cluster, "near")[0].leader
    near = next(each for each in cluster.broker_ids if each != leader)
    rack = "abc"[cluster.broker_ids.index(near)]
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        topics=[FetchTopic(topic="near", partitions=[FetchPartition(partition_max_bytes=1 << 20)])],
        rack_id=rack,
    )
    with cluster.connect(leader) as connection:
        (found,) = connection.request(request, 12).responses[0].partitions
    assert (found.error_code, found.preferred_read_replica, bytes(found.records)) == (0, near, b"")
    # A follower hears of the high watermark by its next fetch, which may be after the producer's acknowledgement.
    wait_until(lambda: sorted(read_all(cluster, "near", 1, **{"client.rack": rack}).values()) == [b"0", b"1", b"2"])


def test_a_follower_tells_of_the_producers_it_remembers(cluster: Cluster) -> None:
    """An administrator names the broker: the leader's memory and a follower's are compared when they differ."""
    cluster.create_topic("remembered", 1, 3)
    wait_in_sync(cluster, "remembered", cluster.broker_ids)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    producer.produce("remembered", b"first", partition=0)
    assert producer.flush(30) == 0
    leader = describe(cluster, "remembered")[0].leader
    expected = producers_of(cluster, "remembered", leader)
    assert [error for error, _ in expected] == [0]
    assert len(expected[0][1]) == 1
    for follower in set(cluster.broker_ids) - {leader}:
        assert producers_of(cluster, "remembered", follower) == expected


@pytest.mark.parametrize(("replica_id", "code"), [(-1, 6), (-2, 0)])
@pytest.mark.parametrize("timestamp", [-1, -2, -3, 0])
def test_a_follower_tells_its_offsets_only_to_who_looks_for_faults(
    cluster: Cluster, replica_id: int, code: int, timestamp: int
) -> None:
    topic = f"looked_into_{-replica_id}_{-timestamp}"
    cluster.create_topic(topic, 1, 3)
    wait_in_sync(cluster, topic, cluster.broker_ids)
    assert produce_one(cluster, topic, b"first") == 0
    leader = describe(cluster, topic)[0].leader
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    request = ListOffsetsRequest(replica_id=replica_id, topics=[asked])
    with cluster.connect(next(each for each in cluster.broker_ids if each != leader)) as connection:
        (found,) = connection.request(request, 8).topics[0].partitions
    expected = -1 if code else int(timestamp == -1)
    assert (found.error_code, found.offset) == (code, expected)


def producers_of(cluster: Cluster, topic: str, broker_id: int) -> list[tuple[int, list[tuple[int, int, int]]]]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    with cluster.connect(broker_id) as connection:
        (found,) = connection.request(request).topics
    return [
        (each.error_code, [(one.producer_id, one.producer_epoch, one.last_sequence) for one in each.active_producers])
        for each in found.partitions
    ]
