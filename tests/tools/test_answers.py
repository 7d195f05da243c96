"""What tools say besides what Kafka's say: JSON, hints, and sentences for what cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.support import reference

from .clusters import our_tool

LISTINGS = [
    ("kafka-topics", "--list"),
    ("kafka-topics", "--describe"),
    ("kafka-configs", "--describe", "--topic", "orders", "--all"),
    ("kafka-configs", "--describe", "--entity-type", "brokers"),
    ("kafka-get-offsets",),
    ("kafka-log-dirs", "--describe"),
    ("kafka-broker-api-versions",),
    ("kafka-cluster", "cluster-id"),
    ("kafka-cluster", "list-endpoints"),
    ("kafka-features", "describe"),
    ("kafka-metadata-quorum", "describe", "--status"),
    ("kafka-metadata-quorum", "describe", "--replication"),
    ("kafka-groups", "--list"),
    ("kafka-client-metrics", "--list"),
    ("kafka-client-metrics", "--describe"),
]
# What a command that only lists topics has no business with.
HEAVY = ("uvloop", "aiokafka", "asyncio", "rich", "barnabas.node", "barnabas.core", "argparse", "logging")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        node.create_topic("orders", partitions=2, config={"retention.ms": 1000})
        node.create_topic("payments")
        yield node


def ours(node: Node, tool: str, *arguments: str) -> tuple[str, str, int]:
    return our_tool(tool, ["--bootstrap-server", node.bootstrap_servers, *arguments], None)


@pytest.mark.parametrize("command", LISTINGS, ids=" ".join)
def test_every_listing_is_had_as_json(node: Node, command: tuple[str, ...]) -> None:
    stdout, stderr, code = ours(node, *command, "--output", "json")
    assert (stderr, code) == ("", 0)
    json.loads(stdout)


def test_json_of_topics_holds_what_the_table_holds(node: Node) -> None:
    stdout, _, _ = ours(node, "kafka-topics", "--describe", "--topic", "orders", "--output=json")
    (topic,) = json.loads(stdout)
    assert (topic["topic"], topic["configs"]) == (
        "orders",
        {"min.insync.replicas": "1", "retention.ms": "1000"},  # the former is the cluster's
    )
    assert [(each["partition"], each["leader"], each["isr"]) for each in topic["partitions"]] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]


def test_an_unknown_topic_is_told_with_the_nearest_names(node: Node) -> None:
    stdout, _, code = ours(node, "kafka-topics", "--describe", "--topic", "order")
    assert (
        stdout
        == "Error while executing topic command : Topic 'order' does not exist as expected Did you mean orders?\n"
    )
    assert code == 1


@pytest.mark.parametrize(
    "tool", ["kafka-topics", "kafka-configs", "kafka-get-offsets", "kafka-log-dirs", "kafka-cluster"]
)
def test_nobody_at_the_address_is_one_sentence(tool: str) -> None:
    address = f"127.0.0.1:{reference.free_port()}"
    actions = {
        "kafka-topics": ["--list"],
        "kafka-configs": ["--describe", "--topic", "t"],
        "kafka-log-dirs": ["--describe"],
        "kafka-cluster": ["cluster-id"],
    }
    stdout, stderr, code = our_tool(tool, ["--bootstrap-server", address, *actions.get(tool, [])], None)
    assert (stdout, code) == ("", 1)
    assert stderr.count("\n") == 1
    assert address in stderr


@pytest.mark.parametrize(
    "command",
    [
        ("kafka-configs", "--alter", "--broker", "7", "--add-config", "log.cleaner.threads=2"),
        ("kafka-features", "describe", "--node-id", "7"),
    ],
    ids=lambda command: command[0],
)
def test_a_broker_that_is_not_there_is_not_waited_for(node: Node, command: tuple[str, ...]) -> None:
    assert ours(node, *command) == ("", "Broker 7 is not there; the cluster has 1.\n", 1)


def test_a_host_that_does_not_resolve_is_passed_over(node: Node) -> None:
    servers = f"no-such-host.invalid:9092,{node.bootstrap_servers}"
    assert our_tool("kafka-topics", ["--bootstrap-server", servers, "--list"], None) == ("orders\npayments\n", "", 0)


def test_the_environment_names_the_cluster_where_the_command_does_not(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVERS", node.bootstrap_servers)
    assert our_tool("kafka-topics", ["--list"], None) == ("orders\npayments\n", "", 0)


def test_a_file_of_client_properties_is_understood(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol = PLAINTEXT\nrequest.timeout.ms=5000\n")
    assert ours(node, "kafka-topics", "--list", "--command-config", str(path))[2] == 0
    path.write_text("security.protocol=SOMETHING\n")
    _, stderr, code = ours(node, "kafka-topics", "--list", "--command-config", str(path))
    assert code == 1
    assert stderr.startswith("security.protocol ")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize("tool", ["kafka-topics", "kafka-metadata-quorum", "kafka-storage"])
def test_a_tool_tells_its_version_as_kafkas_scripts_do(tool: str) -> None:
    stdout, _, code = our_tool(tool, ["--version"], None)
    assert code == 0
    assert stdout.startswith("4.3.1 (Barnabas ")


def test_a_process_prints_its_help_to_stderr_as_kafkas_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "topics", "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage: barnabas topics [options]" in done.stderr
    assert "--under-replicated-partitions" in done.stderr


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (["kafka-metadata-quorum", "describe", "--status"], "ClusterId:"),
        (["kafka-metadata-quorum", "describe", "--replication"], "NodeId\t"),
        (["kafka-cluster", "cluster-id"], "Cluster ID: "),
        (["kafka-cluster", "list-endpoints"], "ID         HOST      PORT       RACK       ENDPOINT_TYPE"),
        (["kafka-features", "describe"], "Feature: "),
    ],
)
def test_a_controller_may_be_asked_instead_of_a_broker(node: Node, command: list[str], printed: str) -> None:
    tool, *words = command
    address = f"127.0.0.1:{node.controller_port}"
    stdout, stderr, code = our_tool(tool, ["--bootstrap-controller", address, *words], None)
    assert (stdout.startswith(printed), stderr, code) == (True, "", 0), stdout


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["kafka.admin.TopicCommand", "--list", "--bootstrap-server", "SERVERS"], "orders\npayments\n"),
        (
            ["kafka.tools.GetOffsetShell", "--broker-list", "SERVERS", "--topic", "payments", "--time", "-1"],
            "payments:0:0\n",
        ),
        (["org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server=SERVERS", "--topic=payments"], "payments:0:0\n"),
        (
            ["-daemon", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper.properties"],
            "No ZooKeeper is needed",
        ),
    ],
)
def test_the_class_names_of_the_courses_run_their_tools(node: Node, words: list[str], printed: str) -> None:
    arguments = [word.replace("SERVERS", node.bootstrap_servers) for word in words]
    stdout, stderr, code = our_tool("kafka-run-class.sh", arguments, None)
    assert (stdout.startswith(printed), stderr, code) == (True, "", 0)


def test_a_class_without_a_tool_is_told_with_the_nearest() -> None:
    _, stderr, code = our_tool("kafka-run-class", ["kafka.tools.DumpLogSegment"], None)
    assert code == 1
    assert stderr == "No tool stands for the class kafka.tools.DumpLogSegment. Did you mean DumpLogSegments?\n"


def test_a_listing_imports_nothing_heavy(node: Node) -> None:
    program = (
        "import sys; from barnabas.cli.main import main; code = main(sys.argv[1:]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "topics", "--bootstrap-server", node.bootstrap_servers, "--list"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("orders\npayments\n[]\n", "", 0)


def test_a_reader_who_goes_away_is_no_traceback(node: Node) -> None:
    command = f"{sys.executable} -m barnabas topics --bootstrap-server {node.bootstrap_servers} --list | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
