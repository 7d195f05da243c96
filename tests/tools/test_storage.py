"""Directories that our kafka-storage formats are begun by our node and by Apache Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.testing import Node
from barnabas.testing.node import StartFailed
from tests.support import reference

from .clusters import our_tool

CLUSTER_ID = "QmFybmFiYXNUb29sc1Rlcw"


def _format(directory: Path, *options: str, voters: bool = False) -> tuple[str, str, int]:
    properties = directory / "format.properties"
    quorum = "controller.quorum.voters=1@127.0.0.1:1" if voters else "controller.quorum.bootstrap.servers=127.0.0.1:1"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n{quorum}\nlog.dirs={directory}/data\n"
    )
    return our_tool("kafka-storage", ["format", "-t", CLUSTER_ID, "-c", str(properties), *options], None)


@pytest.mark.parametrize(
    ("options", "voters"),
    [
        (["--standalone"], False),
        (["--standalone", "--release-version", "4.2"], False),
        (["--standalone", "--add-scram", "SCRAM-SHA-256=[name=anna,password=secret,iterations=8192]"], False),
        ([], True),
    ],
)
def test_our_node_begins_what_the_tool_formatted(tmp_path: Path, options: list[str], voters: bool) -> None:
    stdout, stderr, code = _format(tmp_path, *options, voters=voters)
    assert (stderr, code) == ("", 0)
    assert "Formatting " in stdout
    with Node(data_dir=tmp_path / "data") as node:
        assert node.cluster_id == CLUSTER_ID
        described = our_tool("kafka-features", ["--bootstrap-server", node.bootstrap_servers, "describe"], None)[0]
    wanted = "4.2-IV1" if "4.2" in options else "4.3-IV0"
    assert f"FinalizedVersionLevel: {wanted}" in described


def test_a_directory_in_use_is_not_formatted(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path / "data"):
        (tmp_path / "data" / "meta.properties").rename(tmp_path / "away")
        _, stderr, code = _format(tmp_path, "--standalone")
        (tmp_path / "away").rename(tmp_path / "data" / "meta.properties")
    assert code == 1
    assert stderr == f"{tmp_path}/data is in use by another process\n"


def test_another_node_does_not_begin_it(tmp_path: Path) -> None:
    _format(tmp_path, "--standalone")
    with pytest.raises(StartFailed, match="belongs to node 1"), Node({"node.id": 2}, data_dir=tmp_path / "data"):
        pass


@pytest.mark.skipif(os.environ.get("BARNABAS_GOLDEN") != "all", reason="`make golden` runs it")
def test_apache_kafka_begins_what_the_tool_formatted(tmp_path: Path) -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    credential = "SCRAM-SHA-512=[name=anna,password=secret]"
    assert _format(tmp_path, "--standalone", "--add-scram", credential)[2] == 0
    kafka = reference.ApacheKafka(directory=tmp_path, data_dir=tmp_path / "data", properties={"node.id": "1"})
    with kafka:
        words = ["--bootstrap-server", kafka.bootstrap_servers, "--describe", "--user", "anna"]
        told = our_tool("kafka-configs", words, None)
    assert told[0] == "SCRAM credential configs for user-principal 'anna' are SCRAM-SHA-512=iterations=4096\n"
