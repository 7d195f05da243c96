"""`kafka-consumer-groups`, `kafka-share-groups` and `kafka-groups` about groups of the newer kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support import reference
from tests.support.reference_exchange import Connection
from tests.support.waiting import wait_until

from .clusters import our_tool
from .many_tools import ManyTools

CONSUMERS, SHARES, GROUPS = "kafka-consumer-groups", "kafka-share-groups", "kafka-groups"
CONFIG = {
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
    "group.consumer.session.timeout.ms": 60_000,
    "group.share.session.timeout.ms": 60_000,
}


def reader(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def worker(group: str, member: str, epoch: int, topics: list[str] | None = None) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
    )


class Scene:
    """The group `readers` has a static member and one that subscribes by expression; the share group `workers` has two
    members. `read` and `worked` had some."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection = Connection("127.0.0.1", node.port, client_id="thread")

    def ask(self, request: Any, version: int) -> Any:
        answer = self.connection.ask(request, version)
        assert answer.error_code == 0, answer.error_message
        return answer

    def read(self, group: str, member: str, **fields: Any) -> int:
        """The epoch in which the member is, after it has done what it was told to."""
        last: list[Any] = []

        def has_its_assignment() -> bool:
            epoch = last[0].member_epoch if last else 0
            given: dict[str, Any] = {"topic_partitions": owned, "rebalance_timeout_ms": 60_000, **fields}
            last[:] = [self.ask(reader(group, member, epoch, **given), 1)]
            if last[0].assignment is not None:
                owned[:] = last[0].assignment.topic_partitions
            return bool(owned)

        owned: list[Any] = []
        wait_until(has_its_assignment)
        return int(last[0].member_epoch)

    def work(self, group: str, member: str, epoch: int = 0) -> int:
        """Once the states of the partitions are there, the member gets some."""
        last: list[Any] = []

        def has_its_assignment() -> bool:
            at = last[0].member_epoch if last else epoch
            topics = None if last else ["lines"]
            last[:] = [self.ask(worker(group, member, at, topics), 1)]
            return last[0].assignment is not None and bool(last[0].assignment.topic_partitions)

        wait_until(has_its_assignment)
        return int(last[0].member_epoch)

    def commit(self, group: str, member: str, epoch: int, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="lines", partitions=[partition])]
        answer: Any = self.connection.ask(
            OffsetCommitRequest(group_id=group, member_id=member, generation_id_or_member_epoch=epoch, topics=topics), 9
        )
        assert answer.topics[0].partitions[0].error_code == 0

    def ours(self, script: str, *arguments: str) -> tuple[str, str, int]:
        return our_tool(script, ["--bootstrap-server", self.node.bootstrap_servers, *arguments], None)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Node(CONFIG) as node:
        node.create_topic("lines", partitions=3)
        assert (
            our_tool("barnabas", ["produce", "lines", "--bootstrap-server", node.bootstrap_servers], "a\nb\nc\n")[2]
            == 0
        )
        scene = Scene(node)

        def is_found() -> bool:
            answer: Any = scene.connection.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"]), 4)
            return not answer.coordinators[0].error_code

        wait_until(is_found)
        epoch = scene.read("read", "anna", subscribed_topic_names=["lines"])
        scene.commit("read", "anna", epoch, 1)
        scene.ask(reader("read", "anna", -1), 1)
        epoch = scene.read("readers", "anna", subscribed_topic_names=["lines"], instance_id="first")
        scene.commit("readers", "anna", epoch, 0)
        scene.ask(
            reader(
                "readers", "bert", 0, rebalance_timeout_ms=60_000, topic_partitions=[], subscribed_topic_regex="li.*"
            ),
            1,
        )
        epoch = scene.work("worked", "anna")
        scene.ask(worker("worked", "anna", -1), 1)
        scene.ours(SHARES, "--group", "worked", "--reset-offsets", "--topic", "lines", "--to-earliest", "--execute")
        scene.work("workers", "anna")
        scene.ask(worker("workers", "bert", 0, ["lines"]), 1)
        yield scene
        scene.connection.close()


def test_groups_are_listed_with_their_type(scene: Scene) -> None:
    told, _, code = scene.ours(GROUPS, "--list")
    assert code == 0
    assert sorted(line.split()[:3] for line in told.splitlines()[1:]) == [
        ["read", "Consumer", "consumer"],
        ["readers", "Consumer", "consumer"],
        ["worked", "Share", "share"],
        ["workers", "Share", "share"],
    ]


def rows(told: str) -> list[list[str]]:
    return [line.split() for line in told.splitlines() if line.strip()]


def test_who_has_no_partition_is_no_row_among_the_offsets(scene: Scene) -> None:
    told, _, code = scene.ours(CONSUMERS, "--describe", "--group", "readers")
    assert code == 0
    assert {row[6] for row in rows(told)[1:]} == {"anna"}
    told, _, _ = scene.ours(CONSUMERS, "--describe", "--group", "readers", "--members")
    assert {row[1] for row in rows(told)[1:]} == {"anna", "bert"}


def test_a_group_of_another_kind_is_called_so(scene: Scene) -> None:
    told, errors, code = scene.ours(CONSUMERS, "--describe", "--group", "workers")
    assert (told, errors, code) == (
        "\nError: Executing consumer group command failed due to Group workers is not a consumer group.\n",
        "Group workers is not a consumer group.\n",
        0,
    )


def test_of_a_start_that_is_not_decided_no_epoch_is_told(scene: Scene) -> None:
    told, _, _ = scene.ours(SHARES, "--describe", "--group", "workers", "--verbose")
    assert [row[3:] for row in rows(told)] == [["LEADER-EPOCH", "START-OFFSET", "LAG"], *[["-", "-", "-"]] * 3]
    told, _, _ = scene.ours(SHARES, "--describe", "--group", "worked", "--verbose")
    assert [row[3:5] for row in rows(told)[1:]] == [["0", "0"]] * 3


@pytest.mark.parametrize(
    ("arguments", "said", "wanted_code"),
    [
        (["--delete", "--group", "workers"], "Share group 'workers' is not EMPTY.", 0),
        (["--delete", "--group", "readers"], "Group 'readers' is not a share group.", 0),
        (["--delete", "--group", "nowhere"], "Group 'nowhere' is not a share group.", 0),
        (["--describe", "--group", "nowhere"], "Error: Executing share group command failed due to Group nowhere", 0),
        (["--reset-offsets", "--group", "workers", "--topic", "lines", "--to-latest"], "'workers' is not empty.", 1),
        (["--reset-offsets", "--group", "worked", "--topic", "no", "--to-latest"], "does not host this topic", 0),
        (["--delete-offsets", "--group", "workers", "--topic", "lines"], "Error: The group is not empty.", 0),
        (["--delete-offsets", "--group", "worked", "--topic", "no"], "Error: This server does not host", 0),
    ],
)
def test_what_a_share_group_refuses_is_said_as_kafkas_tool_says_it(
    scene: Scene, arguments: list[str], said: str, wanted_code: int
) -> None:
    told, errors, code = scene.ours(SHARES, *arguments)
    assert said in told + errors
    assert "Traceback" not in told + errors
    assert code == wanted_code


def described(script: str, groups: list[str], others: list[str]) -> list[tuple[str, list[str]]]:
    parts = [
        [],
        ["--offsets", "--verbose"],
        *[[part, *more] for part in ("--members", "--state") for more in ([], ["--verbose"])],
    ]
    found = [(script, ["--describe", "--group", group, *part]) for group in groups for part in parts]
    found += [(script, ["--describe", "--group", group]) for group in others]
    return found + [(script, ["--describe", "--all-groups", *part]) for part in ([], ["--members"], ["--state"])]


READING = [
    *described(CONSUMERS, ["readers", "read"], ["nowhere", "workers"]),
    *described(SHARES, ["workers", "worked"], ["nowhere", "readers"]),
    *[(CONSUMERS, ["--list", *each]) for each in ([], ["--type"], ["--state"], ["--type", "consumer"])],
    (CONSUMERS, ["--list", "--type", "consumer", "--state", "Stable,Empty"]),
    (CONSUMERS, ["--list", "--type", "share"]),
    *[(SHARES, ["--list", *each]) for each in ([], ["--state"], ["--state", "Stable"], ["--state", "Empty"])],
    (GROUPS, ["--list"]),
    (GROUPS, ["--list", "--consumer"]),
    (GROUPS, ["--list", "--share"]),
    (GROUPS, ["--list", "--streams"]),
    (GROUPS, ["--list", "--group-type", "share", "--protocol", "share"]),
    (GROUPS, ["--list", "--group-type", "consumer"]),
    (GROUPS, ["--list", "--protocol", "consumer"]),
    (CONSUMERS, ["--delete", "--group", "readers"]),
    (CONSUMERS, ["--delete", "--group", "workers"]),
    (CONSUMERS, ["--reset-offsets", "--group", "readers", "--topic", "lines", "--to-latest", "--dry-run"]),
    (CONSUMERS, ["--reset-offsets", "--group", "read", "--topic", "lines", "--to-latest", "--dry-run"]),
    (CONSUMERS, ["--delete-offsets", "--group", "readers", "--topic", "lines"]),
    (SHARES, ["--delete", "--group", "workers"]),
    (SHARES, ["--delete", "--group", "readers"]),
    (SHARES, ["--delete", "--group", "nowhere"]),
    (SHARES, ["--reset-offsets", "--group", "workers", "--topic", "lines", "--to-latest", "--dry-run"]),
    (SHARES, ["--reset-offsets", "--group", "worked", "--topic", "lines", "--to-latest", "--dry-run"]),
    (SHARES, ["--reset-offsets", "--group", "worked", "--all-topics", "--to-earliest", "--dry-run"]),
    (SHARES, ["--reset-offsets", "--group", "worked", "--topic", "elsewhere", "--to-earliest", "--dry-run"]),
    (SHARES, ["--reset-offsets", "--group", "readers", "--topic", "lines", "--to-earliest", "--dry-run"]),
    (SHARES, ["--delete-offsets", "--group", "workers", "--topic", "lines"]),
    (SHARES, ["--delete-offsets", "--group", "worked", "--topic", "elsewhere"]),
    (SHARES, ["--delete-offsets", "--group", "nowhere", "--topic", "lines"]),
]


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_the_answers_are_those_of_kafkas_tools(scene: Scene) -> None:
    kafka = ManyTools()
    differences = []
    try:
        for script, arguments in READING:
            servers = ["--bootstrap-server", scene.node.bootstrap_servers]
            expected, _, code = kafka.run(script, [*servers, *arguments], None)
            told, _, our_code = scene.ours(script, *arguments)
            if (_sorted(told), our_code) != (_sorted(expected), code):
                differences.append((script, arguments, told, our_code, expected, code))
    finally:
        kafka.close()
    assert not differences


def _sorted(text: str) -> list[str]:
    """Rows come in the order of Kafka's tables; an error is told with its Java class before the sentence."""
    return sorted(re.sub(r"(java\.lang|org\.apache\.kafka)[\w.]+Exception: ", "", line) for line in text.splitlines())
