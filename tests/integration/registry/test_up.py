"""`barnabas up --all`: a node or a cluster, a registry, a REST proxy, Connect and SQL in one command."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from barnabas.testing import Node
from barnabas.testing.reserved_port import ReservedPort
from tests.support.waiting import wait_until

WAIT_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def two_ports() -> Iterator[int]:
    """The first of two neighbours that nobody else is given meanwhile."""
    while True:
        first = ReservedPort()
        with socket.socket() as second:
            second.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                second.bind(("127.0.0.1", first.number + 1))
            except OSError:
                continue
            else:
                yield first.number
                return
            finally:
                first.release()


class Up:
    """`barnabas up --all` with free ports for its services."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.said = directory / "said"
        self.directory = directory
        names = ("SCHEMA_REGISTRY", "KAFKA_REST", "CONNECT", "KSQL")
        self.registry, self.rest, self.connect, self.sql = self.ports = [free_port() for _ in names]
        environment = {
            f"{name}_LISTENERS": f"http://127.0.0.1:{port}" for name, port in zip(names, self.ports, strict=True)
        }
        environment |= {name: os.environ[name] for name in ("PYTHONPATH", "HOME") if name in os.environ}
        command = [sys.executable, "-m", "barnabas", "up", "--all", "--data-dir", str(directory / "data"), *words]
        with open(self.said, "wb") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, env=environment | {"PATH": "", "PYTHONSAFEPATH": "1"}, cwd=directory
            )

    def wait_for(self, *texts: str) -> None:
        until = time.monotonic() + WAIT_S
        while not all(text in self.said.read_text() for text in texts):
            assert self._process.poll() is None, self.said.read_text()
            assert time.monotonic() < until, self.said.read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(WAIT_S) == 0


def test_all_come_up_and_go_together(tmp_path: Path) -> None:
    up = Up(tmp_path, "--port", "0", "--controller-port", "0")
    try:
        up.wait_for(*(f"{name} is up" for name in ("Schema registry", "REST proxy", "Kafka Connect", "SQL server")))
        assert re.match(
            rb'\{"id":1,"version":1', post(up.registry, "/subjects/s/versions", b'{"schema":"\\"string\\""}')
        )
        assert b'"_schemas"' in get(up.rest, "/topics")
        # The proxy and SQL know where the registry is, and SQL knows where Connect is.
        body = b'{"value_schema":"\\"string\\"","records":[{"value":"x"}]}'
        avro = "application/vnd.kafka.avro.v2+json"
        assert b'"value_schema_id":1' in post(up.rest, "/topics/t", body, avro)
        assert json.loads(get(up.connect, "/connectors")) == []
        made = "CREATE STREAM s (b STRING) WITH (kafka_topic='made', value_format='AVRO', partitions=1);"
        statements = f"SHOW CONNECTORS; {made} INSERT INTO s (b) VALUES ('x');"
        told = json.loads(post(up.sql, "/ksql", json.dumps({"ksql": statements}).encode()))
        assert told[0]["connectors"] == []
        assert told[1]["commandStatus"]["status"] == "SUCCESS"
        assert json.loads(get(up.registry, "/subjects")) == ["made-value", "s", "t-value"]
    finally:
        up.stop()
    assert "Fatal Python error" not in up.said.read_text()
    for each in up.ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", each)) != 0


def test_a_cluster_has_them_too_with_a_log_each(tmp_path: Path) -> None:
    with two_ports() as port:
        started_and_stopped(Up(tmp_path, "--brokers", "2", "--port", str(port)), tmp_path)


def started_and_stopped(up: Up, tmp_path: Path) -> None:
    try:
        up.wait_for(f"http://127.0.0.1:{up.registry}, its log in registry.log")
        for log in ("registry.log", "rest.log", "connect.log", "sql.log"):
            wait_until(lambda log=log: " is up: " in (tmp_path / "data" / log).read_text())  # type: ignore[misc]
        assert json.loads(get(up.registry, "/subjects")) == []
    finally:
        up.stop()


def test_confluents_commands_take_its_files_and_the_images_variables(tmp_path: Path) -> None:
    """A file for the registry, of which a variable changes one setting; variables alone for the proxy."""
    port, rest_port = free_port(), free_port()
    bin_path = Path(sys.executable).parent
    with Node() as node, ExitStack() as stack:
        file = tmp_path / "schema-registry.properties"
        file.write_text(
            f"kafkastore.bootstrap.servers=PLAINTEXT://{node.bootstrap_servers}\nlisteners=http://127.0.0.1:{port}\n"
            "host.name=127.0.0.1\nkafkastore.topic=_from_the_file\nschema.compatibility.level=full\n"
        )
        variables = {"SCHEMA_REGISTRY_KAFKASTORE_TOPIC": "_from_the_variable", "SCHEMA_REGISTRY_HEAP_OPTS": "-Xmx1g"}
        variables |= {"KAFKA_REST_BOOTSTRAP_SERVERS": node.bootstrap_servers}
        variables |= {"KAFKA_REST_LISTENERS": f"http://127.0.0.1:{rest_port}", "KAFKA_REST_HOST_NAME": "rest.example"}
        for command in (("schema-registry-start", str(file)), ("kafka-rest-start",)):
            said = stack.enter_context(open(tmp_path / command[0], "wb"))
            words = [str(bin_path / command[0]), *command[1:]]
            process = subprocess.Popen(words, stdout=said, stderr=said, env=os.environ | variables)
            stack.callback(process.wait, WAIT_S)
            stack.callback(process.terminate)
        wait_until(lambda: "Schema registry is up" in (tmp_path / "schema-registry-start").read_text())
        wait_until(lambda: "REST proxy is up" in (tmp_path / "kafka-rest-start").read_text())
        assert json.loads(get(port, "/config")) == {"compatibilityLevel": "FULL"}
        topics = json.loads(get(rest_port, "/topics"))
        assert "_from_the_variable" in topics
        assert "_from_the_file" not in topics
        (cluster,) = json.loads(get(rest_port, "/v3/clusters"))["data"]
        assert cluster["metadata"]["self"].startswith("http://rest.example:")


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def post(port: int, path: str, body: bytes, content_type: str = "application/json") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request("POST", path, body, {"Content-Type": content_type})
        return connection.getresponse().read()
    finally:
        connection.close()
