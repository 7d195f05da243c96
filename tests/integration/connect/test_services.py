"""Connectors of services: HTTP, search, MQTT and other topics, against servers that the tests start."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane import turns as turns_module
from tests.support.reference import free_port
from tests.support.waiting import wait_until

Bench = Any
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class Server:
    """Keeps what it was sent, and answers what the test wants."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, Any]] = []
        self.documents: dict[tuple[str, str], tuple[int, Any]] = {}
        self.items: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                server.requests.append((self.command, self.path, body))
                server.headers.append(dict(self.headers))
                status, answer = server.answers.pop(0) if server.answers else server.answer(self.path, body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, body: str) -> tuple[int, Any]:
        if path == "/_bulk":
            return 200, self.bulk(body.splitlines())
        if path.startswith("/items"):
            after = int(path.partition("after=")[2] or 0)
            return 200, {"data": [each for each in self.items if each["id"] >= after][:3]}
        return 200, {}

    def bulk(self, lines: list[str]) -> dict[str, Any]:
        """As Elasticsearch does it, with external versions."""
        found = []
        while lines:
            ((kind, target),) = json.loads(lines.pop(0)).items()
            document = json.loads(lines.pop(0)) if kind != "delete" else None
            key, version = (target["_index"], target["_id"]), target.get("version", -1)
            status = 201
            if kind == "index" and "bad" in document:
                status = 400
            elif "version" in target and self.documents.get(key, (-1, None))[0] >= version:
                status = 409
            elif kind == "update":
                old = self.documents.get(key, (-1, {}))[1]
                self.documents[key] = version, old | document["doc"]
            else:
                self.documents[key] = version, document
            found.append({kind: {"_id": target["_id"], "status": status, "error": {"type": "mapper"}}})
        return {"errors": any(next(iter(each.values()))["status"] >= 300 for each in found), "items": found}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def send(bench: Bench, topic: str, *records: tuple[str | None, str | None], **rest: Any) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for key, value in records:
            producer.send(topic, None if value is None else value.encode(), None if key is None else key.encode(),
                          partition=0, **rest)  # fmt: skip
        producer.flush()


def http_sink(url: str, topic: str, **rest: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in rest.items()}
    connector = {"connector.class": "io.confluent.connect.http.HttpSinkConnector", "http.api.url": url}
    return connector | {"topics": topic} | JSON | given


def test_records_are_posted_in_batches_and_tombstones_deleted(bench: Bench, server: Server) -> None:
    send(bench, "posted", ("a", '{"n":1}'), ("b", '{"n":2}'), ("c", '{"n":3}'))
    settings = http_sink(f"{server.url}/in/${{topic}}", "posted", batch_max_size="2", headers="X-Who:me|X-Two:2",
                         auth_type="BASIC", connection_user="anna", connection_password="pw")  # fmt: skip
    bench.start("post", settings)
    assert bench.turns("post") == 3
    assert [(method, path, json.loads(body)) for method, path, body in server.requests] == [
        ("POST", "/in/posted", [{"n": 1}, {"n": 2}]),
        ("POST", "/in/posted", [{"n": 3}]),
    ]
    assert server.headers[0]["X-Who"] == "me"
    assert server.headers[0]["Authorization"] == "Basic YW5uYTpwdw=="
    server.requests.clear()
    send(bench, "put", ("a/b", '{"n":1}'), ("a/b", None))
    settings = http_sink(f"{server.url}/${{key}}", "put", request_method="PUT", behavior_on_null_values="delete")
    bench.start("put", settings)
    bench.turns("put")
    assert server.requests == [("PUT", "/a%2Fb", '{"n":1}'), ("DELETE", "/a%2Fb", "")]


def test_a_server_that_is_ill_is_asked_again_and_a_refused_record_is_a_dead_letter(
    bench: Bench, server: Server
) -> None:
    send(bench, "ill", (None, '{"n":1}'), (None, '{"n":2}'))
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "ill-letters"}
    bench.start("ill", http_sink(server.url, "ill") | tolerant)
    server.answers = [(503, "later")]
    bench.turns("ill", rounds=1)
    state, trace = bench.states("ill")[-1]
    assert state == "RUNNING"
    assert "gives 503" in trace
    server.answers = [(200, {}), (422, {"why": "no"})]
    bench.turns("ill")
    assert bench.values("ill-letters") == ['{"n":2}']
    bench.start("strict-http", http_sink(server.url, "ill"))
    server.answers = [(422, {"why": "no"})]
    bench.turns("strict-http")
    state, trace = bench.states("strict-http")[-1]
    assert state == "FAILED"
    assert 'gives 422: {"why": "no"}' in trace
    bench.start("away", http_sink(f"http://127.0.0.1:{free_port()}", "ill"))
    bench.turns("away", rounds=1)
    assert bench.states("away")[-1][0] == "RUNNING"
    assert "Connection refused" in bench.states("away")[-1][1]


def test_what_is_new_in_answers_becomes_records(bench: Bench, server: Server) -> None:
    server.items = [{"id": number} for number in range(5)]
    settings = {
        "connector.class": "com.github.castorm.kafka.connect.http.HttpSourceConnector",
        "http.request.url": f"{server.url}/items",
        "http.request.params": "after=${offset.key}",
        "http.response.list.pointer": "/data",
        "http.response.record.offset.pointer": "key=/id",
        "http.offset.initial": "key=0",
        "http.timer.interval.millis": "1",
        "kafka.topic": "items",
    } | JSON
    bench.start("items", settings, offsets_topic="items-offsets")
    assert bench.turns("items", rounds=4) == 5
    server.items.append({"id": 5})
    other = type(bench)(bench.servers)
    other.start("items", settings, offsets_topic="items-offsets")
    assert other.turns("items") == 1
    assert [json.loads(each)["id"] for each in bench.values("items")] == [0, 1, 2, 3, 4, 5]
    server.answers = [(404, "gone")]
    other.turns("items", rounds=1)
    assert other.states("items")[-1][0] == "FAILED"
    other.planner.close()


def search(server: Server, topic: str, **rest: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in rest.items()}
    connector = {"connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector"}
    return connector | {"connection.url": server.url, "topics": topic} | JSON | given


def test_documents_have_the_keys_as_ids_and_doing_it_again_changes_nothing(bench: Bench, server: Server) -> None:
    send(bench, "Docs", ("a", '{"n":1}'), ("b", '{"n":2}'), ("a", '{"n":3}'), ("b", None))
    bench.start("docs", search(server, "Docs", behavior_on_null_values="delete"))
    assert bench.turns("docs") == 4
    assert server.documents == {("docs", "a"): (2, {"n": 3}), ("docs", "b"): (3, None)}
    bench.start("docs-again", search(server, "Docs", behavior_on_null_values="delete"))
    assert bench.turns("docs-again") == 4
    assert server.documents == {("docs", "a"): (2, {"n": 3}), ("docs", "b"): (3, None)}
    assert bench.states("docs-again")[-1] == ("RUNNING", "")


def test_documents_without_keys_upserts_and_documents_that_are_refused(bench: Bench, server: Server) -> None:
    send(bench, "plain", (None, '{"n":1}'), (None, '{"bad":1}'), (None, '{"n":2}'))
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "plain-letters"}
    bench.start("plain", search(server, "plain", key_ignore="true") | letters)
    assert bench.turns("plain") == 3
    assert set(server.documents) == {("plain", "plain+0+0"), ("plain", "plain+0+2")}
    assert bench.values("plain-letters") == ['{"bad":1}']
    send(bench, "merged", ("k", '{"a":1}'), ("k", '{"b":2}'))
    bench.start("merged", search(server, "merged", write_method="upsert"))
    bench.turns("merged")
    assert server.documents["merged", "k"][1] == {"a": 1, "b": 2}
    bench.start("no-key", search(server, "plain"))
    bench.turns("no-key")
    assert "is no document id: set key.ignore=true" in bench.states("no-key")[-1][1]


def test_a_topic_is_copied_once_whatever_happens_to_the_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    send(bench, "from", ("a", "1"), ("b", None), (None, "\0"), headers=[("h", b"\xff")], timestamp=5)
    settings = {
        "connector.class": "barnabas.TopicSinkConnector",
        "target.bootstrap.servers": bench.servers,
        "target.topic.format": "copy-of-${topic}",
        "topics": "from",
        "key.converter": BYTES,
        "value.converter": BYTES,
        "header.converter": BYTES,
    }
    bench.start("copy", settings)

    def dies(*_: Any) -> None:
        raise SystemError("killed before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(turns_module, "commit_positions", dies)
        bench.turns("copy", rounds=1)
    assert bench.states("copy")[-1][0] == "FAILED"
    other = type(bench)(bench.servers)
    other.start("copy", settings)
    other.turns("copy")
    send(bench, "from", ("c", "4"))
    other.turns("copy")
    copied = [(each.key, each.value) for each in bench.read("copy-of-from")]
    assert copied == [(b"a", b"1"), (b"b", None), (None, b"\0"), (b"c", b"4")]
    first = bench.read("copy-of-from")[0]
    assert (list(first.headers), first.timestamp) == ([("h", b"\xff")], 5)
    other.planner.close()


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
    program = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    if program is None:
        pytest.skip("there is no mosquitto: apt-get install mosquitto")
    directory, port = tmp_path_factory.mktemp("mosquitto"), free_port()
    (directory / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen([program, "-v", "-c", str(directory / "mosquitto.conf")], stdout=log, stderr=log)
    wait_until(lambda: "running" in (directory / "log").read_text(), "mosquitto runs")
    yield f"tcp://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


def test_messages_of_mqtt_go_to_a_topic_and_records_to_mqtt(bench: Bench, mosquitto: str, tmp_path: Path) -> None:
    source = {
        "connector.class": "io.confluent.connect.mqtt.MqttSourceConnector",
        "mqtt.server.uri": mosquitto,
        "mqtt.topics": "sensors/+/temperature",
        "kafka.topic": "temperatures",
        "value.converter": BYTES,
    }
    sink = {
        "connector.class": "io.confluent.connect.mqtt.MqttSinkConnector",
        "mqtt.server.uri": mosquitto,
        "mqtt.topic.format": "sensors/${key}/temperature",
        "topics": "readings",
        "value.converter": BYTES,
    }
    bench.start("from-mqtt", source)
    assert bench.turns("from-mqtt", rounds=1) == 0, "it has subscribed"
    send(bench, "readings", *[(f"room{number % 3}", f"{number}") for number in range(100)])
    bench.start("to-mqtt", sink)
    assert bench.turns("to-mqtt") == 100
    wait_until(lambda: bench.turns("from-mqtt", rounds=1) >= 0 and topic_size(bench) >= 100, "all messages came back")
    records = bench.read("temperatures")
    assert [each.value for each in records] == [str(number).encode() for number in range(100)]
    assert records[1].key == b"sensors/room1/temperature"
    assert dict(records[1].headers)["mqtt.qos"] == b"1"


def test_messages_of_a_turn_that_fails_come_again(
    bench: Bench, mosquitto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = {
        "connector.class": "io.confluent.connect.mqtt.MqttSourceConnector",
        "mqtt.server.uri": mosquitto,
        "mqtt.topics": "again",
        "kafka.topic": "again",
        "value.converter": BYTES,
    }
    bench.start("again", source)
    bench.turns("again", rounds=1)
    sink = {"connector.class": "MqttSink", "mqtt.server.uri": mosquitto, "topics": "again-out",
            "mqtt.topic.format": "again"}  # fmt: skip
    send(bench, "again-out", (None, "x"))
    bench.start("again-out", sink)
    bench.turns("again-out")

    def dies(*_: Any) -> None:
        raise TimeoutError("the broker is away")

    with monkeypatch.context() as patched:
        patched.setattr(turns_module, "send_offsets", dies)
        wait_until(lambda: bench.turns("again", rounds=1) == 1, "the message is read, and not committed")
    wait_until(lambda: bench.turns("again", rounds=1) == 1, "it comes again")
    assert bench.values("again") == ["x"]


def topic_size(bench: Bench) -> int:
    return len(bench.read("temperatures"))
