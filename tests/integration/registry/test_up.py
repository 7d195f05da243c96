"""`barnabas up --all`: a node, a registry and a REST proxy in one command."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

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
    for each in (port, rest_port):
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", each)) != 0
