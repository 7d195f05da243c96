"""The SQL server as clients of other makes ask it: WebSocket, HTTP/2, a stream of inserts that stays open."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.testing import Node
from tests.support.sql_server import SqlServer

WAIT_S = 60
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    """Without persistent queries Spark does not start."""
    with Node() as node:
        started = SqlServer(node.bootstrap_servers, tmp_path_factory.mktemp("sql")).start()
        started.run("CREATE STREAM p (id STRING KEY, v INT) WITH (kafka_topic='p', value_format='JSON', partitions=1);")
        started.run("INSERT INTO p VALUES ('a', 1); INSERT INTO p VALUES ('b', 2);")
        yield started
        started.stop()


class Socket:
    """A WebSocket's client, of the standard library."""

    def __init__(self, server: SqlServer, request: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), WAIT_S)
        key = base64.b64encode(os.urandom(16)).decode()
        path = f"/ws/query?request={urllib.parse.quote(request)}"
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._socket.sendall(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
        self._file = self._socket.makefile("rb")
        assert self._file.readline().startswith(b"HTTP/1.1 101 ")
        while self._file.readline().strip():
            pass

    def messages(self) -> Iterator[Any]:
        """Until the socket is closed: the last one is the code of the close."""
        while True:
            first, second = self._file.read(2)
            size = second if second < 126 else int.from_bytes(self._file.read(2 if second == 126 else 8), "big")
            data = self._file.read(size)
            if first == 0x88:
                yield int.from_bytes(data[:2], "big")
                return
            yield json.loads(data)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def request(statement: str) -> str:
    return json.dumps({"ksql": statement, "streamsProperties": EARLIEST})


def test_a_query_over_a_websocket_gives_schema_rows_and_an_end(server: SqlServer) -> None:
    asked = Socket(server, request("SELECT * FROM p EMIT CHANGES LIMIT 2;"))
    schema, *rows = asked.messages()
    assert [(one["name"], one["schema"]["type"]) for one in schema] == [("ID", "STRING"), ("V", "INTEGER")]
    assert rows == [{"row": {"columns": ["a", 1]}}, {"row": {"columns": ["b", 2]}}, {"error": "done"}, 1000]
    asked.close()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (request("SELECT nope FROM p;"), "line 1:8: Column 'NOPE' cannot be resolved."),
        (request("SHOW STREAMS;"), "Statement type `Show' not supported"),
        ("{", "Error parsing request: "),
        ("{}", 'Error parsing request: "ksql" field'),
        ("", "Error parsing request: missing request parameter"),
    ],
)
def test_a_wrong_request_closes_the_websocket_with_a_sentence(server: SqlServer, given: str, sentence: str) -> None:
    asked = Socket(server, given)
    told, code = asked.messages()
    assert told["error"].startswith(sentence)
    assert code == 1003
    asked.close()


def test_a_push_query_ends_with_its_websocket(server: SqlServer) -> None:
    asked = Socket(server, request("SELECT * FROM p EMIT CHANGES;"))
    messages = asked.messages()
    assert [len(next(messages)) for _ in range(2)] == [2, 1]
    asked.close()
    from tests.support.waiting import wait_until

    wait_until(lambda: "barnabas_sql_push_queries 0" in server.ask("/metrics")[1], "no push query", WAIT_S)


def chunk(data: str) -> bytes:
    return f"{len(data):x}\r\n{data}\r\n".encode()


def test_inserts_are_acknowledged_while_the_request_is_open(server: SqlServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), WAIT_S) as open_one, open_one.makefile("rb") as answer:
        open_one.sendall(b"POST /inserts-stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        open_one.sendall(chunk('{"target": "p"}\n'))
        assert answer.readline() == b"HTTP/1.1 200 OK\r\n"
        while answer.readline().strip():
            pass
        for number in range(3):  # the next row is sent when the one before it is there
            open_one.sendall(chunk(f'{{"id": "i{number}", "v": {number}}}\n'))
            assert int(answer.readline(), 16) > 0
            assert json.loads(answer.readline()) == {"status": "ok", "seq": number}
            assert answer.readline() == b"\r\n"
        open_one.sendall(b"0\r\n\r\n")
        assert answer.readline() == b"0\r\n"
    assert ["i2", 2] in server.rows("SELECT * FROM p;")


def test_what_is_no_json_ends_a_stream_of_inserts(server: SqlServer) -> None:
    assert server.ask("/inserts-stream", {"target": "nope"})[0] == 400
    given = b'{"target": "p"}\n{"id": "x", "v": "x"}\nnope\n{"id": "y", "v": 1}\n'
    import urllib.request

    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/inserts-stream", given), timeout=60) as answer:
        acks = [json.loads(line) for line in answer]
    assert [(one["seq"], one["status"], one["error_code"]) for one in acks] == [
        (0, "error", 50000),
        (1, "error", 40000),
    ]
    assert acks[1]["message"] == "Invalid JSON in inserts stream"


def test_statuses_properties_and_metadata_are_told(server: SqlServer) -> None:
    def asked(path: str) -> Any:
        status, text = server.ask(path)
        return status, json.loads(text)

    assert asked("/status")[1]["commandStatuses"]["stream/`P`/create"] == "SUCCESS"
    assert asked("/status/stream/P/create") == (
        200,
        {"status": "SUCCESS", "message": "Stream created", "queryId": None},
    )
    assert asked("/status/stream/Q/create")[0] == 404
    assert asked("/is_valid_property/ksql.streams.auto.offset.reset") == (200, True)
    assert asked("/is_valid_property/no.such.thing")[0] == 400
    clusters = asked("/v1/metadata/id")[1]["scope"]["clusters"]
    assert clusters["ksql-cluster"] == "default_"
    assert clusters["kafka-cluster"] == asked("/info")[1]["KsqlServerInfo"]["kafkaClusterId"] != "default_"
    assert asked("/clusterStatus")[0] == 200
    assert asked("/chc/ready") == asked("/chc/live") == (200, {})
    assert server.ask("/heartbeat", {}) == server.ask("/lag", {}) == (200, '{"isOk":true}')


def test_a_push_query_is_closed_by_its_id(server: SqlServer) -> None:
    body = json.dumps({"sql": "SELECT * FROM p EMIT CHANGES;"}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/query-stream", body), timeout=WAIT_S) as answer:
        query_id = json.loads(answer.readline())["queryId"]
        assert server.ask("/close-query", {"queryId": query_id})[0] == 200
        assert answer.read() == b""
    status, text = server.ask("/close-query", {"queryId": query_id})
    assert (status, json.loads(text)["message"]) == (400, f"No query with id {query_id}")


def test_a_statement_is_tried_on_the_last_records(server: SqlServer) -> None:
    server.run("CREATE STREAM x (id STRING KEY, v INT) WITH (kafka_topic='x', value_format='JSON', partitions=2);")
    server.run("CREATE STREAM raw (id STRING KEY, v STRING) WITH (kafka_topic='x', value_format='JSON');")
    for number in range(10):
        server.run(f"INSERT INTO x VALUES ('k{number % 3}', {number});")
    server.run("INSERT INTO raw VALUES ('k0', 'no number');")

    def tried(statement: str) -> Any:
        return server.run(f"EXPLAIN {statement}")[0]["queryDescription"]["dryRun"]

    found = tried("CREATE TABLE y AS SELECT id, SUM(v) AS n FROM x GROUP BY id EMIT CHANGES ON LAST 4;")
    assert (found["records"], found["rows"], found["rejected"]) == (4, 3, 1)
    assert sorted(found["firstRows"]) == [["k0", 9], ["k1", 7], ["k2", 8]]
    assert found["firstRejects"] == ['Can\'t convert field V: For input string: "no number"']
    assert found["recordsPerSecond"] > 0
    assert tried("SELECT * FROM x WHERE v > 100 EMIT CHANGES ON LAST 1000;")["rows"] == 0
    assert server.run("SHOW TABLES;")[0]["tables"] == []
    status, text = server.ask("/ksql", {"ksql": "EXPLAIN SELECT * FROM x EMIT CHANGES ON LAST 0;"})
    assert (status, json.loads(text)["message"][:29]) == (400, "ON LAST takes a number of rec")


def curl(server: SqlServer, path: str, data: str, *options: str) -> tuple[str, list[Any]]:
    """The version of HTTP, and the lines of the answer."""
    words = ["curl", "-sS", "-m", "60", "-w", "\n%{http_version}", "--data-binary", "@-", *options, server.url + path]
    done = subprocess.run(words, input=data, capture_output=True, text=True, timeout=90, check=True)
    *lines, version = done.stdout.splitlines()
    return version, [json.loads(line) for line in lines if line.strip()]


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
needs_h2 = pytest.mark.skipif(importlib.util.find_spec("h2") is None, reason="the package h2 is not installed")
FIRST = json.dumps({"sql": "SELECT * FROM p EMIT CHANGES LIMIT 2;", "properties": EARLIEST})


@needs_curl
@needs_h2
def test_queries_and_inserts_over_http_2(server: SqlServer) -> None:
    version, (header, *rows) = curl(server, "/query-stream", FIRST, "--http2-prior-knowledge")
    assert (version, header["columnTypes"], rows) == ("2", ["STRING", "INTEGER"], [["a", 1], ["b", 2]])
    rows_in = "".join(f'{{"id": "h{number}", "v": {number}}}\n' for number in range(5_000))
    version, acks = curl(server, "/inserts-stream", '{"target": "p"}\n' + rows_in, "--http2-prior-knowledge")
    assert version == "2"
    assert [one["seq"] for one in acks if one["status"] == "ok"] == list(range(5_000))  # more than a window holds
    version, answer = curl(server, "/query-stream", json.dumps({"sql": "SELECT * FROM p;"}), "--http2-prior-knowledge")
    assert len([one for one in answer[1:] if one[0].startswith("h")]) == 5_000
    version, refused = curl(server, "/query-stream", json.dumps({"sql": "SELEC"}), "--http2-prior-knowledge")
    assert (version, refused[0]["error_code"]) == ("2", 40001)


@needs_curl
def test_who_offers_http_2_is_answered_with_http_1(server: SqlServer) -> None:
    version, (_, *rows) = curl(server, "/query-stream", FIRST, "--http2")
    assert (version, rows) == ("1.1", [["a", 1], ["b", 2]])


JOIN = "SELECT one.id AS id, v, w FROM one JOIN three ON one.id = three.id"


@pytest.mark.parametrize("statement", [f"CREATE STREAM o AS {JOIN};", f"EXPLAIN {JOIN} EMIT CHANGES ON LAST 10;"])
def test_sources_whose_keys_do_not_meet_are_not_joined(server: SqlServer, statement: str) -> None:
    server.run(
        "CREATE STREAM IF NOT EXISTS one (id STRING KEY, v INT)"
        " WITH (kafka_topic='one', value_format='JSON', partitions=1);"
        "CREATE TABLE IF NOT EXISTS three (id STRING PRIMARY KEY, w INT)"
        " WITH (kafka_topic='three', value_format='JSON', partitions=3);"
    )
    told = (
        "Can't join `ONE` with `THREE` since the number of partitions don't match. `ONE` partitions = 1; `THREE` "
        "partitions = 3. Please repartition either one so that the number of partitions match."
    )
    assert refusal(server, "/ksql", {"ksql": statement}) == told
    assert refusal(server, "/query-stream", {"sql": f"{JOIN} EMIT CHANGES;"}) == told
    assert all(one["name"] != "O" for one in server.run("SHOW STREAMS;")[0]["streams"])


def test_a_topic_that_is_there_has_the_partitions_that_a_query_asks_for(server: SqlServer) -> None:
    statement = "CREATE STREAM again WITH (kafka_topic='p', partitions=2) AS SELECT * FROM p;"
    told = "A Kafka topic with the name 'p' already exists, with 1 partitions and not with 2."
    assert refusal(server, "/ksql", {"ksql": statement}) == told


def refusal(server: SqlServer, path: str, body: dict[str, Any]) -> str:
    status, text = server.ask(path, body)
    assert status == 400, text
    return str(json.loads(text)["message"])
