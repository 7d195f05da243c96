"""`barnabas connect` on the command line, and the policy for overrides of clients' settings."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.errors import UsageError
from barnabas.cli.services.connect import run
from barnabas.client.errors import InvalidSetting
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plugins import need
from barnabas.pipelines.connect.worker.settings import WorkerSettings
from barnabas.pipelines.connect.worker.validation import validate
from tests.support.waiting import wait_until

Bench = Any
Worker = Any
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def barnabas(*arguments: str) -> tuple[int, str, str]:
    """In this process: a dozen of its own would take longer than all the rest."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code, error = run(list(arguments)), ""
        except UsageError as wrong:
            code, error = 1, str(wrong)
    return code, out.getvalue(), error


def worker_file(path: Path, servers: str) -> str:
    file = path / "worker.properties"
    file.write_text(f"bootstrap.servers={servers}\nkey.converter={STRING}\nvalue.converter={STRING}\n")
    return str(file)


def send(bench: Bench, topic: str, *values: str, **rest: Any) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for value in values:
            producer.send(topic, value.encode(), **rest)
        producer.flush()


def test_a_dry_run_shows_real_records_and_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    send(bench, "dry", '{"a":1}', "{", '{"a":2}', key=b"k")
    sink = {"name": "dry", "config": {"connector.class": "FileStreamSink", "topics": "dry", "file": "/nowhere/x",
            "value.converter": JSON, "value.converter.schemas.enable": "false"}}  # fmt: skip
    (tmp_path / "sink.json").write_text(json.dumps(sink))
    worker = worker_file(tmp_path, bench.servers)
    code, out, err = barnabas("dry-run", str(tmp_path / "sink.json"), "--worker", worker)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == 'dry-0@0  k  {"a":1}'
    assert lines[1].startswith("dry-0@1  FAILS: Converting byte[] to Kafka Connect data failed")
    assert lines[-1] == "3 records, 1 would fail; nothing was written"
    (tmp_path / "in.txt").write_text("foo\nbar\n")
    (tmp_path / "source.properties").write_text(
        f"name=s\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=t\ntransforms=h\n"
        "transforms.h.type=org.apache.kafka.connect.transforms.HoistField$Value\ntransforms.h.field=line\n"
    )
    code, out, _ = barnabas("dry-run", str(tmp_path / "source.properties"), "--worker", worker, "--records", "1")
    assert (code, out) == (
        0,
        "t  null  Struct{line=foo}\n1 records, 0 would fail; nothing was written\n",
    )
    (tmp_path / "source.properties").write_text("name=s\nconnector.class=FileStreamSorce\n")
    command = [sys.executable, "-m", "barnabas", "connect", "dry-run", str(tmp_path / "source.properties")]
    done = subprocess.run([*command, "--worker", worker], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is FileStreamSourceConnector meant?" in done.stderr
    assert "Traceback" not in done.stderr


def test_dead_letters_are_sent_again_once(bench: Bench, tmp_path: Path) -> None:
    worker = worker_file(tmp_path, bench.servers)
    headers = [("h", b"1"), ("__connect.errors.topic", b"origin"), ("__connect.errors.stage", b"X")]
    send(bench, "letters-again", "a", "b", headers=headers, timestamp=7)
    code, out, _ = barnabas("replay", "letters-again", "--worker", worker)
    assert (code, out) == (0, "2 letters sent to origin\n")
    assert barnabas("replay", "letters-again", "--worker", worker)[1] == "no letters to send\n"
    records = bench.read("origin")
    assert [(each.value, list(each.headers), each.timestamp) for each in records] == [
        (b"a", [("h", b"1")], 7),
        (b"b", [("h", b"1")], 7),
    ]
    send(bench, "letters-again", "c")
    code, out, err = barnabas("replay", "letters-again", "--worker", worker)
    assert (code, out) == (1, "")
    assert "1 letters of letters-again do not tell their topic: name one with --to. Nothing was sent." in err
    assert barnabas("replay", "letters-again", "--worker", worker, "--to", "other")[1] == "1 letters sent to other\n"
    assert bench.values("other") == ["c"]


def test_the_commands_of_a_worker(worker: Worker, tmp_path: Path) -> None:
    settings = {"connector.class": "FileStreamSource", "file": str(tmp_path / "f"), "topic": "t"}
    body = {"name": "cli", "config": settings, "initial_state": "STOPPED"}
    assert worker.call("POST", "/connectors", body)[0] == 201
    url = ("--url", worker.url)
    # The state is told a moment after the connector is there, as in Connect.
    wait_until(lambda: barnabas("list", *url)[:2] == (0, "cli  STOPPED  []\n"), "the connector is listed as stopped")
    assert barnabas("logs", "cli", *url)[:2] == (0, "")
    code, _, err = barnabas("logs", "nope", *url)
    assert code == 1
    assert "Connector nope not found" in err
    assert json.loads(barnabas("status", "cli", *url)[1])["connector"]["state"] == "STOPPED"
    assert barnabas("offsets", "cli", *url)[:2] == (0, "")
    assert barnabas("delete", "cli", *url)[0] == 0


@pytest.mark.parametrize(
    ("policy", "allowed", "refused"),
    [
        ("All", ["linger.ms", "security.protocol"], []),
        ("None", [], ["linger.ms", "security.protocol"]),
        ("Principal", ["security.protocol", "sasl.jaas.config"], ["linger.ms"]),
        ("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy", [], ["linger.ms"]),
        ("Allowlist", ["linger.ms"], ["security.protocol"]),
    ],
)
def test_the_policy_for_overrides(policy: str, allowed: list[str], refused: list[str]) -> None:
    properties = {"bootstrap.servers": "localhost:1", "key.converter": STRING, "value.converter": STRING,
                  "connector.client.config.override.policy": policy,
                  "connector.client.config.override.allowlist": "linger.ms, acks"}  # fmt: skip
    worker = WorkerSettings.from_properties(properties, distributed=False)
    settings = {"name": "n", "connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
    settings |= {f"producer.override.{name}": "PLAINTEXT" for name in (*allowed, *refused)}
    plugin = need("FileStreamSource", "source", setting="connector.class")
    found = validate(plugin, settings, worker.defaults(), worker)
    errors = [error for each in found["configs"] for error in each["value"]["errors"]]
    short = policy.rpartition(".")[2].removesuffix("ConnectorClientConfigOverridePolicy")
    assert errors == [
        f"The '{short}' policy does not allow '{name}' to be overridden in the connector configuration."
        for name in refused
    ]
    with pytest.raises(InvalidSetting, match="must be one of All, None, Principal, Allowlist"):
        WorkerSettings.from_properties(properties | {"connector.client.config.override.policy": "Some"},
                                       distributed=False)  # fmt: skip
