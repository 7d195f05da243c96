"""The console consumer as a process: Ctrl-C and its count, its own group that disappears, a reader that goes away."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.client.admin.groups import committed_offsets, list_groups
from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node

from .clusters import our_tool

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node({"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def cluster(node: Node) -> Iterator[Cluster]:
    with Cluster(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)) as opened:
        yield opened


def console_consumer(node: Node, topic: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "barnabas", "console-consumer", "--bootstrap-server", node.bootstrap_servers]
    return subprocess.Popen([*command, "--topic", topic, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def produce(node: Node, topic: str, lines: str) -> None:
    node.create_topic(topic, partitions=1)
    assert our_tool("barnabas", ["produce", topic, "--bootstrap-server", node.bootstrap_servers], lines)[2] == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_with_its_count_and_its_own_group_disappears(
    node: Node, cluster: Cluster, number: signal.Signals, code: int
) -> None:
    topic = f"ends-{code}"
    produce(node, topic, "a\nb\nc\n")
    with console_consumer(node, topic, "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(3)] == [b"a\n", b"b\n", b"c\n"]
        assert [group for group in list_groups(cluster) if group.group.startswith("console-consumer-")]
        process.send_signal(number)
        assert process.wait(LIMIT_S) == code
        assert process.stderr.read() == b"Processed a total of 3 messages\n"
        assert process.stdout.read() == b""
    assert not [group for group in list_groups(cluster) if group.group.startswith("console-consumer-")]


def test_a_group_has_committed_no_more_than_was_printed(node: Node, cluster: Cluster) -> None:
    produce(node, "commits", "".join(f"{number}\n" for number in range(100)))
    for wanted, printed in (("7", range(7)), ("5", range(7, 12))):
        arguments = ["--bootstrap-server", node.bootstrap_servers, "--topic", "commits", "--group", "g"]
        arguments += ["--from-beginning", "--max-messages", wanted]
        stdout, stderr, code = our_tool("kafka-console-consumer", arguments, None)
        assert (stdout.split(), code) == ([str(number) for number in printed], 0)
        assert stderr == f"Processed a total of {wanted} messages\n"
    assert committed_offsets(cluster, "g")["commits", 0].offset == 12


def test_a_reader_that_has_seen_enough_ends_it(node: Node) -> None:
    produce(node, "long", "".join(f"{'x' * 1000}\n" for _ in range(2000)))
    with console_consumer(node, "long", "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(LIMIT_S) == 0
        said = process.stderr.read()
    assert said.startswith(b"Unable to write to standard out, closing consumer.\nProcessed a total of ")


def test_what_cannot_be_printed_ends_it_unless_it_is_to_be_skipped(node: Node) -> None:
    produce(node, "numbers", "01234567\nabc\n76543210\n")
    arguments = ["--bootstrap-server", node.bootstrap_servers, "--topic", "numbers", "--partition", "0"]
    arguments += ["--offset", "earliest", "--max-messages", "3", "--value-deserializer", "LongDeserializer"]
    stdout, stderr, code = our_tool("kafka-console-consumer", arguments, None)
    assert (stdout, code) == ("3472611983179986487\n", 1)
    assert stderr.splitlines() == [
        "Processed a total of 2 messages",
        "The record numbers-0@1 cannot be printed: Size of data received by LongDeserializer is not 8",
    ]
    stdout, stderr, code = our_tool("kafka-console-consumer", [*arguments, "--skip-message-on-error"], None)
    assert (len(stdout.split()), code, stderr.splitlines()[-1]) == (2, 0, "Processed a total of 3 messages")


def test_a_topic_that_is_mistyped_is_told_with_the_nearest_name_and_waited_for(node: Node) -> None:
    produce(node, "orders", "a\n")
    arguments = ["--bootstrap-server", node.bootstrap_servers, "--topic", "oders", "--timeout-ms", "100"]
    arguments += ["--command-property", "allow.auto.create.topics=false"]
    stdout, stderr, code = our_tool("kafka-console-consumer", arguments, None)
    assert (stdout, code) == ("", 0)
    assert stderr.splitlines()[0].endswith("Topic oders does not exist; waiting for it. Did you mean orders?")
    assert stderr.splitlines()[1] == "Processed a total of 0 messages"


def test_a_partition_that_the_topic_does_not_have_is_told_and_not_waited_for(node: Node) -> None:
    node.create_topic("three", partitions=3)
    arguments = ["--bootstrap-server", node.bootstrap_servers, "--topic", "three", "--partition", "9"]
    stdout, stderr, code = our_tool("kafka-console-consumer", arguments, None)
    assert (stdout, code) == ("", 1)
    assert stderr == "Topic 'three' has no partition 9: it has 3, numbered from 0.\n"


def test_who_reads_from_the_beginning_learns_that_records_were_deleted(node: Node) -> None:
    produce(node, "shortened", "a\nb\nc\n")
    address = ["--bootstrap-server", node.bootstrap_servers]
    plan = '{"version":1,"partitions":[{"topic":"shortened","partition":0,"offset":2}]}'
    path = node.data_dir / "offsets.json"
    path.write_text(plan)
    assert our_tool("kafka-delete-records", [*address, "--offset-json-file", str(path)], None)[2] == 0
    hint = (
        "Records before offset 2 of shortened-0 were deleted, by retention or by DeleteRecords: "
        "reading begins behind them.\n"
    )
    reading = [*address, "--topic", "shortened", "--from-beginning", "--max-messages", "1"]
    assert our_tool("kafka-console-consumer", reading, None) == ("c\n", f"{hint}Processed a total of 1 messages\n", 0)
    assert our_tool("barnabas", ["consume", "shortened", "--exit", *address], None) == ("c\n", hint, 0)
