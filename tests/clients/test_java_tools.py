"""Kafka's own Java tools as clients: console producer and consumer, topics, configs, offsets, quorum."""

import pytest

from tests.support import reference


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    if reason := reference.available():
        pytest.skip(f"Kafka's tools are not available: {reason}")


def tool(name: str, servers: str, *arguments: str, input: str | None = None) -> str:
    told = reference.run_tool(name, "--bootstrap-server", servers, *arguments, input=input, timeout_s=60)
    assert told.returncode == 0, told.stderr + told.stdout
    return told.stdout


def test_the_console_producer_writes_what_the_console_consumer_reads(servers: str, topic: str) -> None:
    assert f"Created topic {topic}." in tool("kafka-topics", servers, "--create", "--topic", topic)
    lines = [f"key-{number}:value-{number}" for number in range(100)]
    properties = (
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        "--compression-codec",
        "lz4",
    )
    tool("kafka-console-producer", servers, "--topic", topic, *properties, input="\n".join(lines) + "\n")
    said = tool(
        *("kafka-console-consumer", servers, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "100", "--timeout-ms", "20000"),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
        *("--formatter-property", "print.offset=true"),
    )
    assert said.splitlines() == [f"Offset:{number}:{line}" for number, line in enumerate(lines)]


def test_the_topics_tool_describes_alters_and_deletes(servers: str, topic: str) -> None:
    tool("kafka-topics", servers, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=1000")
    described = tool("kafka-topics", servers, "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 1\tConfigs: " in described
    assert "retention.ms=1000" in described.splitlines()[0]
    tool("kafka-topics", servers, "--alter", "--topic", topic, "--partitions", "4")
    assert topic in tool("kafka-topics", servers, "--list").splitlines()
    tool("kafka-configs", servers, "--alter", "--topic", topic, "--add-config", "max.message.bytes=2000")
    assert "max.message.bytes=2000" in tool("kafka-configs", servers, "--describe", "--topic", topic)
    assert tool("kafka-get-offsets", servers, "--topic", topic).splitlines() == [f"{topic}:{n}:0" for n in range(4)]
    tool("kafka-topics", servers, "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", servers, "--list").splitlines()


def test_the_quorum_and_the_features_are_described(servers: str) -> None:
    status = tool("kafka-metadata-quorum", servers, "describe", "--status")
    assert "LeaderId:" in status
    assert "CurrentVoters:" in status
    assert "metadata.version" in tool("kafka-features", servers, "describe")
    assert "Produce(0)" in tool("kafka-broker-api-versions", servers)
    assert "logDirs" in tool("kafka-log-dirs", servers, "--describe")
