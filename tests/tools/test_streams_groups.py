"""`kafka-streams-groups`: what it tells is what Kafka's own tool tells of the same node, line by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.support import reference
from tests.support.reference_exchange import Connection
from tests.support.waiting import wait_until

from .clusters import our_tool
from .many_tools import ManyTools

GROUP = "app"
TOPOLOGY = Topology(
    subtopologies=[
        Subtopology(
            subtopology_id="0", source_topics=["lines"], state_changelog_topics=[TopicInfo(name="app-counts-changelog")]
        )
    ]
)


class Scene:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.connection = Connection("127.0.0.1", node.port, client_id="thread")
        self.epochs: dict[str, int] = {}

    def beat(self, group: str, member_id: str, epoch: int, **fields: Any) -> Any:
        request = StreamsGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)
        answer: Any = self.connection.ask(request, 0)
        assert answer.error_code == 0, answer.error_message
        return answer

    def join(self, group: str) -> int:
        """Returns the epoch in which the member has its tasks."""
        tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        first = {"rebalance_timeout_ms": 60_000, "process_id": "process", **tasks}
        found = self.beat(group, "anna", 0, topology=TOPOLOGY, **first)
        last = [found]

        def has_tasks() -> bool:
            if not last[0].active_tasks:
                last[0] = self.beat(group, "anna", last[0].member_epoch)
            return bool(last[0].active_tasks)

        wait_until(has_tasks)
        return int(last[0].member_epoch)

    def commit(self, group: str, epoch: int, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name="lines", partitions=[partition])]
        member = {"member_id": "anna", "generation_id_or_member_epoch": epoch}
        answer: Any = self.connection.ask(OffsetCommitRequest(group_id=group, topics=topics, **member), 9)
        assert answer.topics[0].partitions[0].error_code == 0

    def ours(self, *arguments: str, script: str = "kafka-streams-groups") -> tuple[str, str, int]:
        return our_tool(script, ["--bootstrap-server", self.node.bootstrap_servers, *arguments], None)


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Node({"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}) as node:
        node.create_topic("lines", partitions=2)
        arguments = ["produce", "lines", "--bootstrap-server", node.bootstrap_servers]
        assert our_tool("barnabas", arguments, "a\nb\nc\n")[2] == 0
        scene = Scene(node)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])

        def is_found() -> bool:
            answer: Any = scene.connection.ask(find, 4)
            return not answer.coordinators[0].error_code

        wait_until(is_found)
        for group in (GROUP, "left"):
            epoch = scene.join(group)
            scene.commit(group, epoch, 0)
        scene.beat("left", "anna", -1)
        yield scene
        scene.connection.close()


READING = [
    ["--list"],
    ["--list", "--state"],
    ["--list", "--state", "Stable"],
    ["--describe", "--group", GROUP],
    ["--describe", "--group", GROUP, "--offsets", "--verbose"],
    ["--describe", "--group", GROUP, "--members"],
    ["--describe", "--group", GROUP, "--members", "--verbose"],
    ["--describe", "--group", GROUP, "--state"],
    ["--describe", "--group", GROUP, "--state", "--verbose"],
    ["--describe", "--group", "left"],
    ["--describe", "--group", "left", "--state"],
    ["--describe", "--group", "left", "--members"],
    ["--reset-offsets", "--group", "left", "--all-input-topics", "--to-latest", "--dry-run"],
    ["--reset-offsets", "--group", "left", "--input-topic", "lines:0", "--to-earliest", "--dry-run", "--export"],
    ["--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-earliest", "--dry-run"],
    ["--delete-offsets", "--group", "nowhere", "--input-topic", "lines"],
    ["--delete-offsets", "--group", GROUP, "--input-topic", "lines"],
    ["--delete", "--group", GROUP],
]


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_the_answers_are_those_of_kafkas_tool(scene: Scene) -> None:
    kafka = ManyTools()
    try:
        for arguments in READING:
            servers = ["--bootstrap-server", scene.node.bootstrap_servers]
            expected, _, code = kafka.run("kafka-streams-groups", [*servers, *arguments], None)
            told, _, our_code = scene.ours(*arguments)
            assert (_sorted(told), our_code) == (_sorted(expected), code), arguments
    finally:
        kafka.close()


def _sorted(text: str) -> list[str]:
    """Rows come in the order of Kafka's tables; an error is told with its Java class before the sentence."""
    return sorted(re.sub(r"(java\.lang|org\.apache\.kafka)[\w.]+Exception: ", "", line) for line in text.splitlines())


def test_groups_are_listed_with_their_type(scene: Scene) -> None:
    told, _, code = scene.ours("--list", "--streams", script="kafka-groups")
    assert code == 0
    assert [line.split() for line in told.splitlines()[1:]] == [
        [GROUP, "Streams", "streams"],
        ["left", "Streams", "streams"],
    ]


def test_a_group_as_json(scene: Scene) -> None:
    (group,) = json.loads(scene.ours("--describe", "--group", GROUP, "--output", "json")[0])
    assert (group["state"], group["subtopologies"][0]["source_topics"]) == ("Stable", ["lines"])
    assert [member["assignment"]["active"] for member in group["members"]] == [{"0": [0, 1]}]
    assert sum(each["lag"] for each in group["offsets"]) == 3


def test_offsets_are_reset_and_deleted_and_then_the_group_with_its_internal_topics(scene: Scene) -> None:
    group = "gone"
    epoch = scene.join(group)
    scene.commit(group, epoch, 0)
    refused = scene.ours("--delete-offsets", "--group", group, "--input-topic", "lines")[0]
    assert "Encountered some partition-level error" in refused
    scene.beat(group, "anna", -1)
    scene.ours("--reset-offsets", "--group", group, "--input-topic", "lines:0", "--to-latest", "--execute")
    (shown,) = scene.ours(
        "--reset-offsets", "--group", group, "--all-input-topics", "--to-current", "--dry-run", "--export"
    )[0].split()
    ends = scene.ours("--reset-offsets", "--group", group, "--all-input-topics", "--to-latest", "--dry-run", "--export")
    assert shown == ends[0].split()[0]
    told = scene.ours("--delete-offsets", "--group", group, "--all-input-topics")[0]
    assert told.splitlines()[0] == f"Request succeeded for deleting offsets from group {group}."
    assert "Successful" in told
    told, _, code = scene.ours("--delete", "--group", group, "--group", "nowhere")
    assert "These streams groups were deleted successfully: 'gone'." in told
    assert "* Group 'nowhere' could not be deleted due to: Group 'nowhere' does not exist" in told
    assert code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--list", "--describe"],
        ["--describe"],
        ["--describe", "--group", GROUP, "--members", "--state"],
        ["--delete", "--group", GROUP, "--input-topic", "lines"],
        ["--delete-offsets", "--group", GROUP],
        ["--reset-offsets", "--group", GROUP, "--all-input-topics", "--to-latest"],
        ["--reset-offsets", "--group", GROUP, "--to-latest", "--dry-run"],
        ["--list", "--state", "Sleeping"],
        ["--list", "--execute"],
        ["--describe", "--group", "nowhere"],
    ],
)
def test_what_cannot_be_meant_is_refused_by_a_sentence(scene: Scene, arguments: list[str]) -> None:
    told, errors, code = scene.ours(*arguments)
    assert code != 0
    assert "Traceback" not in told + errors
    assert errors.strip()
