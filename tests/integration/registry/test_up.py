"""`barnabas up --all`: a node, a registry and a REST proxy in one command."""

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
from contextlib import ExitStack
from pathlib import Path

from barnabas.testing import Node
from tests.support.waiting import wait_until

WAIT_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_all_come_up_and_go_together(tmp_path: Path) -> None:
    port, rest_port = free_port(), free_port()
    command = [sys.executable, "-m", "barnabas", "up", "--all", "--port", "0", "--controller-port", "0"]
    command += ["--data-dir", str(tmp_path / "data")]
    with open(tmp_path / "said", "wb") as said:
        environment = {"SCHEMA_REGISTRY_LISTENERS": f"http://127.0.0.1:{port}", "PATH": "", "PYTHONSAFEPATH": "1"}
        environment |= {"KAFKA_REST_LISTENERS": f"http://127.0.0.1:{rest_port}"}
        environment |= {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        up = subprocess.Popen(command, stdout=said, stderr=said, env=environment, cwd=tmp_path)
    try:
        until = time.monotonic() + WAIT_S
        while not all(f"{name} is up" in (tmp_path / "said").read_text() for name in ("Schema registry", "REST proxy")):
            assert up.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < until, (tmp_path / "said").read_text()
            time.sleep(0.05)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        body = b'{"schema":"\\"string\\""}'
        connection.request("POST", "/subjects/s/versions", body, {"Content-Type": "application/json"})
        assert re.match(rb'\{"id":1,"version":1', connection.getresponse().read())
        connection.close()
        connection = http.client.HTTPConnection("127.0.0.1", rest_port, timeout=WAIT_S)
        connection.request("GET", "/topics")
        assert b'"_schemas"' in connection.getresponse().read()
        # The proxy knows where the registry is.
        body = b'{"value_schema":"\\"string\\"","records":[{"value":"x"}]}'
        connection.request("POST", "/topics/t", body, {"Content-Type": "application/vnd.kafka.avro.v2+json"})
        assert b'"value_schema_id":1' in connection.getresponse().read()
        connection.close()
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(WAIT_S) == 0
    assert "Fatal Python error" not in (tmp_path / "said").read_text()
    for each in (port, rest_port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", each)) != 0


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
