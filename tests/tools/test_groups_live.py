"""Groups with members, as consumer-groups tells of them: columns and sentences are those of Kafka's tool."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from barnabas.client.consumer import GroupConsumer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node

from .clusters import our_tool

PROPERTIES = {"group.id": "live", "client.id": "anna", "group.instance.id": "inst-1", "auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node({"group.initial.rebalance.delay.ms": 0}) as running:
        running.create_topic("t", partitions=2)
        running.create_topic("u", partitions=1)
        arguments = ["produce", "t", "-K:", "--bootstrap-server", running.bootstrap_servers]
        assert our_tool("barnabas", arguments, "a:1\nb:2\nc:3\nd:4\n")[2] == 0
        settings = ClientSettings.from_properties(
            PROPERTIES, bootstrap_servers=running.bootstrap_servers, client_id="anna"
        )
        with GroupConsumer(settings, topics=["t", "u"]) as consumer:
            read = 0
            while read < 4:
                read += len(consumer.poll(1000))
            consumer.commit()
            yield running


def groups(node: Node, *arguments: str) -> tuple[list[str], str, int]:
    stdout, stderr, code = our_tool(
        "kafka-consumer-groups", ["--bootstrap-server", node.bootstrap_servers, *arguments], None
    )
    masked = re.sub(r"inst-1-[0-9a-f-]{36}", "inst-1-*", stdout.replace(node.bootstrap_servers, "broker:9092"))
    return [re.sub(r" +", " ", line).rstrip() for line in masked.splitlines()], stderr, code


def test_offsets_are_told_with_the_member_that_reads_them(node: Node) -> None:
    lines, stderr, code = groups(node, "--describe", "--group", "live")
    assert (stderr, code) == ("", 0)
    assert lines[:2] == [
        "",
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID",
    ]
    rows = [line.split() for line in lines[2:]]
    assert [row[:3] for row in rows] == [["live", "t", "0"], ["live", "t", "1"], ["live", "u", "0"]]
    assert {tuple(row[6:]) for row in rows} == {("inst-1-*", "/127.0.0.1", "anna")}
    assert [row[5] for row in rows] == ["0", "0", "0"]
    assert sum(int(row[4]) for row in rows) == 4


def test_members_have_their_instance_and_assignment(node: Node) -> None:
    lines, _, _ = groups(node, "--describe", "--group", "live", "--members")
    assert lines == [
        "",
        "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS",
        "live inst-1-* inst-1 /127.0.0.1 anna 3",
    ]
    lines, _, _ = groups(node, "--describe", "--group", "live", "--members", "--verbose")
    assert lines[1:] == [
        "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH "
        "TARGET-ASSIGNMENT",
        "live inst-1-* inst-1 /127.0.0.1 anna 3 - t:0,1;u:0 - -",
    ]


def test_the_state_names_coordinator_and_assignor(node: Node) -> None:
    lines, _, _ = groups(node, "--describe", "--all-groups", "--state")
    assert lines[1:] == [
        "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS",
        "live broker:9092 (1) range Stable 1",
    ]
    lines, _, _ = groups(node, "--list", "--state", "stable", "--type")
    assert lines == ["GROUP TYPE STATE", "live Classic Stable"]


def test_everything_is_told_as_json(node: Node) -> None:
    lines, _, _ = groups(node, "--describe", "--group", "live", "--output", "json")
    (group,) = json.loads("\n".join(lines))
    (member,) = group["members"]
    assert (group["state"], member["group_instance_id"], len(member["partitions"])) == ("Stable", "inst-1", 3)
    assert [row["lag"] for row in group["offsets"]] == [0, 0, 0]


def test_what_members_hold_is_neither_reset_nor_deleted(node: Node) -> None:
    lines, _, code = groups(node, "--reset-offsets", "--group", "live", "--topic", "t", "--to-earliest", "--execute")
    assert code == 0
    assert lines[1] == (
        "Error: Assignments can only be reset if the group 'live' is inactive, but the current state is Stable."
    )
    lines, _, code = groups(node, "--delete", "--group", "live")
    assert lines[1:] == [
        "Error: Deletion of some consumer groups failed:",
        "* Group 'live' could not be deleted due to: The group is not empty.",
    ]
    lines, _, _ = groups(node, "--delete-offsets", "--group", "live", "--topic", "u")
    assert lines[1] == "Error: Encountered some partition-level error, see the follow-up details."
    assert lines[-1].startswith("u 0 Error: Deleting offsets of a topic is forbidden while the consumer group is")
    lines, _, _ = groups(node, "--describe", "--group", "live", "--state")
    assert lines[-1] == "live broker:9092 (1) range Stable 1"


def test_a_cluster_that_cannot_be_reached_is_an_error() -> None:
    stdout, stderr, code = our_tool("kafka-consumer-groups", ["--bootstrap-server", "127.0.0.1:1", "--list"], None)
    assert (stdout, stderr, code) == ("", "127.0.0.1:1 cannot be reached: connection refused.\n", 1)
