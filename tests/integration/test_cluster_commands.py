"""Clusters by command: `barnabas up --brokers`, and six processes from nothing but the variables of Docker images."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from barnabas.client.connection import Connection
from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing.process import environment
from barnabas.wire.messages.describe_cluster import DescribeClusterRequest
from tests.support.reference import free_port
from tests.support.waiting import wait_until

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


def brokers_at(port: int) -> list[int]:
    address = ("127.0.0.1", port)
    try:
        with Connection(address, ClientSettings(bootstrap_servers=(address,))) as connection:
            return sorted(each.broker_id for each in connection.request(DescribeClusterRequest()).brokers)
    except ClientError:
        return []


def three_ports() -> int:
    """The first of three that follow each other and are free, as far as one can know."""
    for _ in range(100):
        first = free_port()
        try:
            with ExitStack() as probes:
                for port in range(first, first + 3):
                    probes.enter_context(probe(port))
            return first
        except OSError:
            continue
    raise AssertionError("no three free ports in a row")


@contextmanager
def probe(port: int) -> Iterator[None]:
    import socket

    with socket.create_server(("127.0.0.1", port)):
        yield


def test_a_cluster_by_one_command_ends_with_one_signal(tmp_path: Path) -> None:
    port = three_ports()
    command = [sys.executable, "-m", "barnabas", "up", "--brokers", "2", "--controllers", "1", "--racks", "a,b"]
    data = tmp_path / "data"
    said = tmp_path / "said"
    with open(said, "wb") as output:
        started = subprocess.Popen(
            [*command, "--data-dir", str(data), "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=output,
            env=environment(os.environ),
        )
    try:
        wait_until(lambda: "brokers [101, 102] are in service" in said.read_text(), "the cluster is up")
        wait_until(lambda: brokers_at(port) == brokers_at(port + 1) == [101, 102], "both know each other")
    finally:
        started.send_signal(signal.SIGINT)
        started.wait(60)
    assert started.returncode == 0, said.read_text()
    assert f"clients     127.0.0.1:{port},127.0.0.1:{port + 1}" in said.read_text()
    assert list(json.loads((data / "cluster.json").read_text())["controllers"]) == ["1"]
    for node_id in (1, 101, 102):
        assert re.search(rf"Node {node_id} has stopped", (data / f"node-{node_id}.log").read_text())
    again = subprocess.run(
        [*command[:-4], "--data-dir", str(data), "--port", str(port)],
        capture_output=True,
        text=True,
        env=environment(os.environ),
        timeout=60,
        check=False,
    )
    assert again.returncode != 0
    assert "has the controllers [1], and [1, 2] are asked for" in again.stderr


def test_six_processes_from_the_variables_of_docker_images(tmp_path: Path) -> None:
    ports = {node_id: free_port() for node_id in (1, 2, 3, 101, 102, 103)}
    voters = ",".join(f"{node_id}@127.0.0.1:{ports[node_id]}" for node_id in (1, 2, 3))
    processes = []
    try:
        for node_id, port in ports.items():
            is_broker = node_id > 100
            variables = {
                "CLUSTER_ID": CLUSTER_ID,
                "KAFKA_NODE_ID": str(node_id),
                "KAFKA_PROCESS_ROLES": "broker" if is_broker else "controller",
                "KAFKA_LISTENERS": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://127.0.0.1:{port}",
                "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
                "KAFKA_CONTROLLER_QUORUM_VOTERS": voters,
                "KAFKA_LOG_DIRS": str(tmp_path / str(node_id)),
            }
            with open(tmp_path / f"{node_id}.log", "wb") as log:
                command = [sys.executable, "-m", "barnabas", "server", "start"]
                env = environment(os.environ) | variables
                processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=env))
        for broker_id in (101, 102, 103):
            port = ports[broker_id]
            wait_until(lambda port=port: brokers_at(port) == [101, 102, 103], f"broker {broker_id} knows all three")
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
