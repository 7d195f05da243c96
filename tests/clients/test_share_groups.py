"""Share groups of real consumers: ours and Kafka's own work through one topic, record by record."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from barnabas.client.cluster import Cluster
from barnabas.client.errors import Refused
from barnabas.client.settings import ClientSettings
from barnabas.client.share_consumer import ShareConsumer, ShareRecord
from barnabas.testing import Node
from tests.support import reference
from tests.support.waiting import wait_until

WAIT_S = 60
CONFIG = {
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": 3000,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.record.lock.duration.ms": 1000,
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(CONFIG) as started:
        yield started


def prepare(node: Node, topic: str, group: str, count: int, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(WAIT_S)
    wanted = {"share_auto_offset_reset": "earliest", **configs}
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in wanted.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    produce(node, topic, count)


def produce(node: Node, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"task-%d" % number, partition=number % 2)
    assert producer.flush(WAIT_S) == 0


def consumer(node: Node, group: str, topic: str) -> ShareConsumer:
    settings = ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)
    return ShareConsumer(settings, group, [topic])


def take(share: ShareConsumer, count: int) -> list[ShareRecord]:
    found: list[ShareRecord] = []

    def enough() -> bool:
        found.extend(share.poll(200))
        return len(found) >= count

    wait_until(enough, limit_s=WAIT_S)
    return found


def test_tasks_are_worked_off_by_several_and_each_once(node: Node) -> None:
    prepare(node, "tasks", "workers", 40)
    with consumer(node, "workers", "tasks") as anna, consumer(node, "workers", "tasks") as bert:
        done: list[bytes | None] = []

        def work() -> bool:
            for worker in (anna, bert):
                for record in worker.poll(100):
                    done.append(record.value)
                    worker.ack(record)
            return len(done) >= 40

        wait_until(work, limit_s=WAIT_S)
        assert sorted(done, key=str) == sorted((b"task-%d" % number for number in range(40)), key=str)
        assert anna.poll(300) == []
    with consumer(node, "workers", "tasks") as later:
        assert later.poll(500) == []


def test_nothing_is_passed_over_where_more_lies_in_the_log_than_may_be_in_flight(node: Node) -> None:
    prepare(node, "many", "slow", 0, share_partition_max_record_locks="100")
    for _ in range(20):  # batches of 35 in each partition
        produce(node, "many", 70)
    seen = 0
    with consumer(node, "slow", "many") as share:

        def work() -> bool:
            nonlocal seen
            for record in share.poll(100):
                seen += 1
                share.ack(record)
            return seen >= 20 * 70

        wait_until(work, limit_s=WAIT_S)
        assert share.poll(300) == []


def test_a_partition_that_always_has_records_does_not_starve_the_other(node: Node) -> None:
    prepare(node, "uneven", "fair", 0)
    for _ in range(20):  # batches of 5 in each partition
        produce(node, "uneven", 10)
    settings = ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)
    with ShareConsumer(settings, "fair", ["uneven"], max_records=5) as share:
        seen: list[int] = []

        def work() -> bool:
            for record in share.poll(200):
                seen.append(record.partition)
                share.ack(record)
            return len(seen) >= 60

        wait_until(work, limit_s=WAIT_S)
    assert min(seen.count(0), seen.count(1)) >= 20


def test_a_topic_that_is_made_anew_or_late_is_taken_from(node: Node) -> None:
    """The consumer had asked for its topics once, and knew the id of the new one to be nobody's."""
    prepare(node, "again", "patient", 4)
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    settings = {"bootstrap.servers": node.bootstrap_servers}
    with ShareConsumer(settings, "patient", ["again", "late"]) as share:
        for record in take(share, 4):
            share.ack(record)
        share.commit()
        admin.create_topics([NewTopic("late", 2, 1)])["late"].result(WAIT_S)
        produce(node, "late", 4)
        assert {record.topic for record in take(share, 4)} == {"late"}
        admin.delete_topics(["again"])["again"].result(WAIT_S)
        wait_until(lambda: "again" not in admin.list_topics(timeout=WAIT_S).topics, limit_s=WAIT_S)
        admin.create_topics([NewTopic("again", 2, 1)])["again"].result(WAIT_S)
        produce(node, "again", 4)
        assert {record.topic for record in take(share, 4)} == {"again"}


def test_a_group_begins_so_long_before_now(node: Node) -> None:
    prepare(node, "dated", "since", 0, share_auto_offset_reset="by_duration:PT1H")
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
    now_ms = int(time.time() * 1000)
    for number, minutes in enumerate((180, 90, 30, 5)):
        producer.produce("dated", b"%d" % number, partition=0, timestamp=now_ms - minutes * 60_000)
        assert producer.flush(WAIT_S) == 0
    with consumer(node, "since", "dated") as share:
        assert [record.value for record in take(share, 2)] == [b"2", b"3"]


def test_a_consumer_that_may_not_read_is_told_so() -> None:
    """It asked again and again, and never said why nothing came."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": True,
    }
    with Node(CONFIG | rules) as node:
        prepare(node, "closed", "outside", 2)
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, "log_level": 0})
        kind, name = ResourceType.TOPIC, ResourcePatternType.LITERAL
        operations = {
            AclOperation.READ: AclPermissionType.DENY,
            AclOperation.DESCRIBE: AclPermissionType.ALLOW,
        }
        rights = [
            AclBinding(kind, "closed", name, "User:ANONYMOUS", "*", operation, permission)
            for operation, permission in operations.items()
        ]
        for done in admin.create_acls(rights).values():
            done.result(WAIT_S)
        with consumer(node, "outside", "closed") as share, pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
            wait_until(lambda: share.poll(100), limit_s=WAIT_S)


def test_a_consumer_of_a_group_of_another_kind_is_told_so(node: Node) -> None:
    """It asked again without a pause before, and never said why nothing came."""
    prepare(node, "other", "not-shared", 0)
    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "not-shared", "group.protocol": "consumer"}
    classic = Consumer({**settings, "log_level": 0})
    classic.subscribe(["other"])
    wait_until(lambda: classic.poll(0.1) is None and classic.assignment(), limit_s=WAIT_S)
    with consumer(node, "not-shared", "other") as share, pytest.raises(Refused, match="GROUP_ID_NOT_FOUND"):
        wait_until(lambda: share.poll(100), limit_s=5)
    classic.close()


def test_what_is_given_back_comes_again_and_what_is_rejected_does_not(node: Node) -> None:
    prepare(node, "returns", "returning", 3, share_delivery_count_limit="3")
    with consumer(node, "returning", "returns") as share:
        records = {record.value: record for record in take(share, 3)}
        share.ack(records[b"task-0"])
        share.nack(records[b"task-1"])
        share.reject(records[b"task-2"])
        with pytest.raises(Refused):
            share.ack(records[b"task-0"])
        (again,) = take(share, 1)
        assert (again.value, again.delivery_count) == (b"task-1", 2)
        share.nack(again, delay_s=0.5)
        (last,) = take(share, 1)
        assert last.delivery_count == 3
        share.nack(last)
        share.commit()
        assert share.poll(300) == []


def test_what_a_consumer_holds_when_it_goes_is_given_to_others(node: Node) -> None:
    prepare(node, "left", "leaving", 2)
    with consumer(node, "leaving", "left") as first:
        assert len(take(first, 2)) == 2
    with consumer(node, "leaving", "left") as second:
        assert [record.delivery_count for record in take(second, 2)] == [2, 2]


def test_the_lock_of_one_that_is_silent_runs_out(node: Node) -> None:
    prepare(node, "silent", "locking", 2, share_record_lock_duration_ms="1000")
    with consumer(node, "locking", "silent") as first, consumer(node, "locking", "silent") as second:
        taken: list[ShareRecord] = []
        wait_until(lambda: taken.extend(first.poll(100)) or len(taken) == 2 or taken.extend(second.poll(100)))
        again = take(second, 1)
        assert again[0].delivery_count >= 2


def test_large_records_are_read_in_pieces_and_what_was_aborted_is_passed_over(node: Node) -> None:
    """More is aborted than is read at once."""
    prepare(node, "large", "reading", 0, share_isolation_level="read_committed")
    producer = Producer(
        {"bootstrap.servers": node.bootstrap_servers, "transactional.id": "large", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    for is_kept in (True, False, True):
        producer.begin_transaction()
        for number in range(6):
            producer.produce("large", b"%d" % number * 60_000, partition=0)
            producer.flush(WAIT_S)  # a batch each
        producer.commit_transaction() if is_kept else producer.abort_transaction()
    with consumer(node, "reading", "large") as share:
        records = take(share, 12)
        assert [record.value for record in records] == [b"%d" % number * 60_000 for number in range(6)] * 2
        assert [record.offset for record in records] == [*range(6), *range(14, 20)]
        for record in records:
            share.ack(record)
        servers = ["--bootstrap-server", node.bootstrap_servers]

        def nothing_is_left() -> bool:
            """Markers are gaps to the consumer, which says so when it is polled."""
            assert share.poll(100) == []
            shown = tool("share-groups", *servers, "--describe", "--group", "reading").splitlines()
            return ["reading", "large", "0", "21", "0"] in [line.split() for line in shown]

        wait_until(nothing_is_left, limit_s=WAIT_S)


def test_what_was_acknowledged_survives_a_kill_of_the_node() -> None:
    with Node(CONFIG) as node:
        prepare(node, "kept", "surviving", 20)
        with consumer(node, "surviving", "kept") as share:
            records = take(share, 20)
            for record in records[:15]:
                share.ack(record)
            share.commit()
            node.kill()
            node.restart()
            rest = {(record.partition, record.offset) for record in records[15:]}
            again: set[tuple[int, int]] = set()

            def has_rest() -> bool:
                again.update((record.partition, record.offset) for record in share.poll(200))
                return again >= rest

            wait_until(has_rest, limit_s=WAIT_S)
            assert again == rest


def test_the_state_of_a_group_is_pruned_and_nothing_of_it_is_forgotten() -> None:
    config = CONFIG | {
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.prune.interval.ms": 200,
    }
    with Node(config) as node:
        prepare(node, "long", "patient", 600)
        kept: list[ShareRecord] = []
        with consumer(node, "patient", "long") as share:
            for record in take(share, 600):
                if record.offset % 100 == 7:
                    kept.append(record)
                else:
                    share.ack(record)
                    share.commit()
            wait_until(lambda: state_log_start(node) > 300, limit_s=WAIT_S)
            node.kill()
            node.restart()
        with consumer(node, "patient", "long") as share:
            again = {(record.partition, record.offset) for record in take(share, len(kept))}
        assert again == {(record.partition, record.offset) for record in kept}


def state_log_start(node: Node) -> int:
    at = ("__share_group_state", 0)
    with Cluster(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)) as cluster:
        return cluster.list_offsets({at: -2})[at].offset


def test_our_own_tools(node: Node) -> None:
    prepare(node, "tooled", "tool-group", 6)
    servers = ["--bootstrap-server", node.bootstrap_servers]
    group = ["--group", "tool-group"]
    read = tool("console-share-consumer", *servers, *group, "--topic", "tooled", "--max-messages", "4")
    assert len(read.split()) == 4, read
    assert tool("share-groups", *servers, "--list").split() == sorted(tool("share-groups", *servers, "--list").split())
    shown = [line.split() for line in tool("share-groups", *servers, "--describe", *group).splitlines()]
    assert shown[1] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert sum(int(row[4]) for row in shown[2:]) == 2
    reset = ["--reset-offsets", "--topic", "tooled", "--to-earliest", "--execute"]
    tool("share-groups", *servers, *group, *reset)
    shown = [line.split() for line in tool("share-groups", *servers, "--describe", *group).splitlines()]
    assert [row[3:] for row in shown[2:]] == [["0", "3"], ["0", "3"]]
    assert "Successful" in tool("share-groups", *servers, *group, "--delete-offsets", "--topic", "tooled")
    assert "was successful" in tool("share-groups", *servers, *group, "--delete")


def events(printed: str) -> list[dict[str, Any]]:
    """What a verifiable consumer tells, but for the time and what depends on how records come along."""
    found = [json.loads(line) for line in printed.splitlines()]
    assert all(list(each)[:2] == ["timestamp", "name"] for each in found)
    return [{key: value for key, value in each.items() if key != "timestamp"} for each in found]


def acknowledged(told: list[dict[str, Any]]) -> set[tuple[int, int]]:
    sets = [part for each in told if each["name"] == "offsets_acknowledged" for part in each["partitions"]]
    return {(part["partition"], offset) for part in sets for offset in part["offsets"]}


VERIFIED = ["--max-messages", "6", "--offset-reset-strategy", "earliest", "--verbose"]


def test_a_verifiable_share_consumer_tells_what_it_did(node: Node) -> None:
    prepare(node, "verified", "verifying", 6)
    servers = ["--bootstrap-server", node.bootstrap_servers]
    told = events(
        tool("verifiable-share-consumer", *servers, "--group-id", "verifying", "--topic", "verified", *VERIFIED)
    )
    assert told[:2] == [
        {"name": "startup_complete"},
        {"name": "offset_reset_strategy_set", "offsetResetStrategy": "earliest"},
    ]
    assert told[-1] == {"name": "shutdown_complete"}
    assert acknowledged(told) == {(partition, offset) for partition in (0, 1) for offset in range(3)}
    data = [each for each in told if each["name"] == "record_data"]
    assert [list(each) for each in data] == [["name", "key", "value", "topic", "partition", "offset"]] * 6
    shown = [line.split() for line in tool("share-groups", *servers, "--describe", "--group", "verifying").splitlines()]
    assert [row[4] for row in shown[2:]] == ["0", "0"]


def test_the_members_of_a_performance_test_share_the_records(node: Node) -> None:
    prepare(node, "measured", "measuring", 2_000)
    servers = ["--bootstrap-server", node.bootstrap_servers, "--topic", "measured", "--group", "measuring"]
    lines = tool(
        "share-consumer-perf-test", *servers, "--num-records", "2000", "--threads", "2", "--show-consumer-stats"
    ).splitlines()
    assert lines[0].split(", ")[2:] == [
        "data.consumed.in.MB",
        "MB.sec",
        "nMsg.sec",
        "data.consumed.in.nMsg",
        "fetch.time.ms",
    ]
    assert lines[1].startswith("Share consumer 1 having client id perf-share-consumer-client-1 consumption metrics- ")
    assert int(lines[-1].split(", ")[5]) == sum(int(line.split(", ")[5]) for line in lines[1:3]) == 2000


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_kafkas_verifiable_share_consumer_tells_the_same(node: Node) -> None:
    prepare(node, "compared", "theirs", 6)
    servers = ["--bootstrap-server", node.bootstrap_servers]
    options = [*servers, "--topic", "compared", *VERIFIED]
    theirs = events(reference.run_tool("kafka-verifiable-share-consumer", *options, "--group-id", "theirs").stdout)
    ours = events(tool("verifiable-share-consumer", *options, "--group-id", "ours"))
    shapes = [{(each["name"], *each) for each in told} for told in (theirs, ours)]
    assert shapes[0] == shapes[1]
    assert acknowledged(theirs) == acknowledged(ours)


def tool(*arguments: str) -> str:
    command = [sys.executable, "-m", "barnabas", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_kafkas_own_share_consumer_and_tool(node: Node) -> None:
    prepare(node, "java", "java-group", 20)
    servers = ["--bootstrap-server", node.bootstrap_servers]
    read = reference.run_tool(
        "kafka-console-share-consumer", *servers, "--topic", "java", "--group", "java-group", "--max-messages", "20"
    )
    assert len(read.stdout.split()) == 20, read
    shown = reference.run_tool("kafka-share-groups", *servers, "--describe", "--group", "java-group").stdout
    rows = [line.split() for line in shown.splitlines() if line.startswith("java-group")]
    assert sorted((row[1], row[2], row[4]) for row in rows) == [("java", "0", "0"), ("java", "1", "0")], shown
    deleted = reference.run_tool("kafka-share-groups", *servers, "--delete", "--group", "java-group")
    assert "successful" in deleted.stdout, deleted


def test_without_a_persister_states_live_in_memory_and_no_topic_is_made() -> None:
    with Node(CONFIG | {"group.share.persister.class.name": ""}) as forgetful:
        prepare(forgetful, "passing", "forgetters", 6)
        for deliveries in ({1}, {1}):  # as for the first time after the restart
            with consumer(forgetful, "forgetters", "passing") as share:
                taken = take(share, 6)
                assert {record.delivery_count for record in taken} == deliveries
                for record in taken:
                    share.ack(record)
                share.commit()
                assert share.poll(500) == []
            forgetful.restart()
        admin = AdminClient({"bootstrap.servers": forgetful.bootstrap_servers, "log_level": 0})
        assert "__share_group_state" not in admin.list_topics(timeout=WAIT_S).topics
