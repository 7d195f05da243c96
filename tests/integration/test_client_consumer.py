"""Consumers of our own on a real node: every record is read, whoever joins, leaves, dies or restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator

import pytest

from barnabas.client.consumer import AssignedConsumer, GroupConsumer
from barnabas.client.errors import ClientError, InvalidSetting, OffsetOutOfRange, Refused, TimedOut
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset
from barnabas.client.producer import Producer
from barnabas.client.records import count
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode

LIMIT_S = 30.0
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node({"group.min.session.timeout.ms": 100}) as running:
        yield running


def settings(node: Node, **properties: str) -> ClientSettings:
    quick = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": "100", "session.timeout.ms": "2000"}
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSettings.from_properties(quick | given, bootstrap_servers=node.bootstrap_servers)


def fill(node: Node, topic: str, first: int, last: int, partitions: int = 1) -> None:
    with Producer(settings(node)) as producer:
        for number in range(first, last):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def poll_until(consumers: list[GroupConsumer], condition: Callable[[], bool]) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, [consumer.assignment for consumer in consumers]
        for consumer in consumers:
            values += [record.value for record in consumer.poll(20)]
    return values


def read(consumer: GroupConsumer | AssignedConsumer, wanted: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < wanted:
        assert time.monotonic() < deadline, values
        values += [record.value for record in consumer.poll(200)]
    return values


def test_a_group_goes_on_where_it_has_committed(node: Node) -> None:
    node.create_topic("goes-on")
    fill(node, "goes-on", 0, 50)
    with GroupConsumer(settings(node, group_id="goes-on", max_poll_records="20"), topics=["goes-on"]) as consumer:
        assert read(consumer, 20) == numbers(0, 20)
        assert consumer.positions == {("goes-on", 0): 20}
    with GroupConsumer(settings(node, group_id="goes-on", enable_auto_commit="false"), topics=["goes-on"]) as consumer:
        assert read(consumer, 30) == numbers(20, 50)
        consumer.commit({("goes-on", 0): CommittedOffset(30, "by hand")})
        assert consumer.committed([("goes-on", 0)]) == {("goes-on", 0): (30, "by hand", -1)}
        consumer.seek("goes-on", 0, 48)
        assert read(consumer, 2) == numbers(48, 50)
        consumer.seek("goes-on", 0, -2)
        assert read(consumer, 50) == numbers(0, 50)
    with GroupConsumer(settings(node, group_id="goes-on"), topics=["goes-on"]) as consumer:
        assert read(consumer, 20) == numbers(30, 50), "what was not committed is read again"


def test_offsets_are_committed_now_and_then(node: Node) -> None:
    node.create_topic("now-and-then")
    fill(node, "now-and-then", 0, 5)
    properties = {"group_id": "now-and-then", "auto_commit_interval_ms": "50"}
    consumer = GroupConsumer(settings(node, **properties), topics=["now-and-then"])
    assert read(consumer, 5) == numbers(0, 5)
    with AssignedConsumer(settings(node, group_id="now-and-then")) as other:
        # Where the records were slow to come, the start of the log is committed first.
        poll_until([consumer], lambda: [each.offset for each in other.committed([("now-and-then", 0)]).values()] == [5])
    consumer.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", COOPERATIVE])
def test_members_share_partitions_and_take_over_from_who_leaves(node: Node, strategy: str) -> None:
    topic = f"shared-{strategy.rpartition('.')[2]}"
    node.create_topic(topic, partitions=4)
    fill(node, topic, 0, 40, partitions=4)
    events: list[tuple[str, int]] = []
    properties = settings(node, group_id=topic, partition_assignment_strategy=strategy)
    first = GroupConsumer(
        properties,
        topics=[topic],
        on_assigned=lambda given: events.append(("assigned", len(given))),
        on_revoked=lambda taken: events.append(("revoked", len(taken))),
    )
    values = poll_until([first], lambda: len(first.assignment) == 4)
    second = GroupConsumer(properties, topics=[topic])
    both = [first, second]
    values += poll_until(both, lambda: [len(each.assignment) for each in both] == [2, 2])
    assert first.assignment | second.assignment == {(topic, index) for index in range(4)}
    fill(node, topic, 40, 80, partitions=4)
    values += poll_until(both, lambda: sum(sum(each.positions.values()) for each in both) == 80)
    second.close()
    values += poll_until([first], lambda: len(first.assignment) == 4)
    fill(node, topic, 80, 120, partitions=4)
    values += poll_until([first], lambda: sum(first.positions.values()) == 120)
    first.close()
    assert sorted(value for value in values if value is not None) == sorted(numbers(0, 120)), "each record once"
    if strategy == COOPERATIVE:
        moved = [event for event in events if event[1]]
        assert moved == [("assigned", 4), ("revoked", 2), ("assigned", 2), ("revoked", 4)]
    else:
        assert events == [
            ("assigned", 4),
            ("revoked", 4),
            ("assigned", 2),
            ("revoked", 2),
            ("assigned", 4),
            ("revoked", 4),
        ]


def test_a_member_that_dies_is_replaced_when_its_session_ends(node: Node) -> None:
    node.create_topic("dies", partitions=2)
    fill(node, "dies", 0, 20, partitions=2)
    dying = GroupConsumer(settings(node, group_id="dies", session_timeout_ms="500"), topics=["dies"])
    poll_until([dying], lambda: len(dying.assignment) == 2)
    dying._membership._heartbeat.end()  # and it is never heard of again
    with GroupConsumer(settings(node, group_id="dies"), topics=["dies"]) as heir:
        poll_until([heir], lambda: len(heir.assignment) == 2)
        # The dead comes back: it has lost everything, and joins as somebody new.
        lost: list[object] = []
        dying._on_lost = lost.append
        dying._membership._heartbeat = type(dying._membership._heartbeat)(dying._cluster, dying.settings)
        dying._membership._heartbeat.begin(dying._membership.generation)
        poll_until([heir, dying], lambda: len(heir.assignment) == len(dying.assignment) == 1)
        assert lost == [[("dies", 0), ("dies", 1)]]
        dying.close()


def test_a_member_that_does_not_poll_leaves(node: Node) -> None:
    node.create_topic("idle")
    idle = GroupConsumer(settings(node, group_id="idle", max_poll_interval_ms="300"), topics=["idle"])
    poll_until([idle], lambda: len(idle.assignment) == 1)
    with GroupConsumer(settings(node, group_id="idle"), topics=["idle"]) as other:
        poll_until([other], lambda: len(other.assignment) == 1)
    idle.close()


def test_a_restart_of_the_node_is_survived_by_the_group() -> None:
    with Node() as node:
        node.create_topic("restart", partitions=2)
        fill(node, "restart", 0, 20, partitions=2)
        properties = settings(node, group_id="restart", session_timeout_ms="10000")
        with GroupConsumer(properties, topics=["restart"]) as consumer:
            values = read(consumer, 20)
            thread = threading.Thread(target=lambda: (node.kill(), node.restart()))
            thread.start()
            slowest_s = 0.0
            while thread.is_alive():
                began = time.monotonic()
                consumer.poll(50)
                slowest_s = max(slowest_s, time.monotonic() - began)
            assert slowest_s < LIMIT_S / 2, "a poll does not wait until the node is back"
            fill(node, "restart", 20, 40, partitions=2)
            values += read(consumer, 20)
            assert sorted(value for value in values if value is not None) == sorted(numbers(0, 40))


def test_topics_that_match_are_followed_as_they_come_and_grow(node: Node) -> None:
    node.create_topic("match-1")
    node.create_topic("other-1")
    properties = settings(node, group_id="match", metadata_max_age_ms="50")
    with GroupConsumer(properties, pattern="match-.*") as consumer:
        poll_until([consumer], lambda: consumer.assignment == {("match-1", 0)})
        node.create_topic("match-2", partitions=2)
        poll_until([consumer], lambda: consumer.assignment == {("match-1", 0), ("match-2", 0), ("match-2", 1)})
    with GroupConsumer(
        settings(node, group_id="later", allow_auto_create_topics="false"), topics=["later"]
    ) as consumer:
        assert consumer.poll(100) == []
        node.create_topic("later")
        poll_until([consumer], lambda: consumer.assignment == {("later", 0)})


def test_a_rebalance_that_stumbles_over_the_offsets_is_taken_up_again(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the member would keep its partitions and nobody would read them."""
    node.create_topic("stumbles", partitions=2)
    fill(node, "stumbles", 0, 10, partitions=2)
    with GroupConsumer(settings(node, group_id="stumbles"), topics=["stumbles"]) as consumer:
        committed = consumer.committed
        problems: list[ClientError] = [TimedOut("The coordinator does not answer."), Refused(ErrorCode.NONE, "")]

        def stumble(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
            if problems:
                raise problems.pop()
            return committed(partitions)

        monkeypatch.setattr(consumer, "committed", stumble)
        for _ in range(2):
            with pytest.raises(ClientError):
                read(consumer, 1)
        assert sorted(value or b"" for value in read(consumer, 10)) == sorted(numbers(0, 10))


def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(node: Node) -> None:
    node.create_topic("static", partitions=2)
    properties = settings(node, group_id="static", group_instance_id="one", session_timeout_ms="20000")
    first = GroupConsumer(properties, topics=["static"])
    poll_until([first], lambda: len(first.assignment) == 2)
    generation = first.generation_id
    first.close()
    with GroupConsumer(properties, topics=["static"]) as again:
        poll_until([again], lambda: len(again.assignment) == 2)
        assert again.generation_id == generation


def test_where_no_offset_is_known_the_reset_decides(node: Node) -> None:
    node.create_topic("reset")
    fill(node, "reset", 0, 5)
    with GroupConsumer(settings(node, group_id="latest", auto_offset_reset="latest"), topics=["reset"]) as consumer:
        poll_until([consumer], lambda: consumer.positions == {("reset", 0): 5})
    none = settings(node, group_id="none", auto_offset_reset="none")
    with (
        GroupConsumer(none, topics=["reset"]) as consumer,
        pytest.raises(ClientError, match="has no offset of reset-0"),
    ):
        poll_until([consumer], lambda: False)


def test_a_group_that_refuses_says_why(node: Node) -> None:
    with pytest.raises(InvalidSetting, match=r"^group\.id is missing"):
        GroupConsumer(settings(node), topics=["t"])
    with (
        GroupConsumer(settings(node, group_id="g", session_timeout_ms="3000000"), topics=["reset"]) as consumer,
        pytest.raises(Refused, match=r"^This consumer cannot join group g \(INVALID_SESSION_TIMEOUT\)$"),
    ):
        consumer.poll(5000)


def test_given_partitions_are_read_without_a_group(node: Node) -> None:
    node.create_topic("given", partitions=2)
    fill(node, "given", 0, 20, partitions=2)
    with AssignedConsumer(settings(node)) as consumer:
        consumer.assign({("given", 0): 8, ("given", 1): -2})
        assert sorted(value or b"" for value in read(consumer, 12)) == sorted([b"16", b"18", *numbers(1, 21)[::2]])
        consumer.assign({("given", 1): -1})
        assert consumer.poll(0) == []
        assert consumer.positions == {("given", 1): 10}
        consumer.assign({("given", 0): 0})
        consumer.pause([("given", 0)])
        assert consumer.poll(100) == []
        consumer.resume([("given", 0)])
        batches = consumer.poll_batches(5000)
        assert count(batches[0]) == (10, 15)
        with pytest.raises(InvalidSetting, match=r"^group\.id is missing"):
            consumer.commit()
        with pytest.raises(Refused, match="given-1 is not assigned"):
            consumer.seek("given", 1, 0)
    with AssignedConsumer(settings(node, auto_offset_reset="none")) as consumer:
        consumer.assign({("given", 0): 99})
        with pytest.raises(OffsetOutOfRange):
            consumer.poll(5000)
    with AssignedConsumer(settings(node, group_id="given")) as consumer:
        consumer.assign({("given", 0): 99})
        assert read(consumer, 10) == numbers(0, 20)[::2], "from the earliest, as it is set"
        consumer.commit()
        assert consumer.committed([("given", 0)])["given", 0].offset == 10


def test_a_commit_after_the_group_has_moved_on_is_refused(node: Node) -> None:
    node.create_topic("moved")
    with GroupConsumer(settings(node, group_id="moved", enable_auto_commit="false"), topics=["moved"]) as consumer:
        poll_until([consumer], lambda: len(consumer.assignment) == 1)
        consumer._membership.generation = consumer._membership.generation._replace(id=99)
        with pytest.raises(Refused) as refused:
            consumer.commit({("moved", 0): CommittedOffset(0)})
        assert refused.value.code is ErrorCode.ILLEGAL_GENERATION
