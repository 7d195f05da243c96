"""Whatever is sent, the answer is an error that fits, in bounded time and memory, and the next request is served."""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.testing.rest import Rest
from tests.integration.rest.conftest import Api
from tests.support.waiting import wait_until

HEAD = b"POST /topics/t HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.kafka.json.v2+json\r\n"


@pytest.fixture(scope="module")
def rest() -> Iterator[Rest]:
    with Node() as node, Rest(node.bootstrap_servers, {"schema.registry.url": "http://127.0.0.1:9"}) as rest:
        yield rest


@pytest.fixture(autouse=True)
def unharmed(rest: Rest) -> Iterator[None]:
    yield
    assert Api(rest.port).produce("honest", "json", 1)[0] == 200


def memory_mb(rest: Rest) -> float:
    lines = Path(f"/proc/{rest.pid}/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("VmRSS")).split()[1]) / 1024


def test_half_a_body_and_none_at_all(rest: Rest) -> None:
    for body in (
        b"Content-Length: 100\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"Content-Length: 5\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", rest.port)) as connection:
            connection.sendall(HEAD + body)


def test_bytes_that_are_no_http(rest: Rest) -> None:
    with socket.create_connection(("127.0.0.1", rest.port)) as connection:
        connection.settimeout(60)
        connection.sendall(b"\x00\x00\x00\x12kafka?\r\n\r\n")
        assert b"400" in connection.recv(1024)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 200_000,
        b'{"records":' * 50_000,
        b"\xff\xfe",
        b'{"records":[{"value":1e999999}]}' * 2,
        b"null",
        b'"text"',
    ],
)
def test_bodies_that_are_no_json(rest: Rest, body: bytes) -> None:
    status, answer = Api(rest.port)("POST", "/topics/t", body, Content_Type="application/vnd.kafka.json.v2+json")
    assert status in (400, 422)
    assert set(answer) == {"error_code", "message"}
    assert "Traceback" not in answer["message"]


def test_names_and_numbers_that_make_no_sense(rest: Rest) -> None:
    api = Api(rest.port)
    for path in ("/topics/%00", f"/topics/{'x' * 5000}", "/topics/%ff%fe", "/topics/t/partitions/99999999999999999999"):
        assert api("GET", path)[0] == 404, path
    assert api("GET", "/consumers/g/instances/i/records?timeout=soon")[0] == 404
    assert api("GET", "/v3/clusters?" + "&".join(f"a{number}=1" for number in range(2_000)))[0] == 400


def test_a_registry_that_is_not_there(rest: Rest) -> None:
    status, answer = Api(rest.port).produce("t", "avro", {}, value_schema='"int"')
    assert (status, answer["error_code"]) == (500, 50002)
    assert "No schema registry answers" in answer["message"]


def test_a_thousand_connections_that_do_nothing(rest: Rest) -> None:
    before = memory_mb(rest)
    idle: list[socket.socket] = []
    try:
        for _ in range(1_000):
            idle.append(socket.create_connection(("127.0.0.1", rest.port), 30))
        for connection in idle[::2]:
            connection.sendall(b"POST /topics/t HTTP/1.1\r\nHost: x\r\n")  # half a request
        assert Api(rest.port).produce("honest", "json", 1)[0] == 200
        assert memory_mb(rest) - before < 40
    finally:
        for connection in idle:
            connection.close()


def test_large_streams_that_never_end_take_bounded_memory(rest: Rest) -> None:
    """Twenty objects of 15 MB that are not whole: more than the proxy holds at a time."""
    cluster = Api(rest.port)("GET", "/v3/clusters")[1]["data"][0]["cluster_id"]
    head = f"POST /v3/clusters/{cluster}/topics/stream/records HTTP/1.1\r\nHost: x\r\n"
    kind = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    part = b"x" * 3_000_000
    streams: list[socket.socket] = []
    try:
        for _ in range(20):
            stream = socket.create_connection(("127.0.0.1", rest.port), 30)
            streams.append(stream)
            stream.sendall(f"{head}{kind}".encode() + b'1\r\n{\r\n1\r\n"\r\n')
            for _ in range(5):
                stream.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        assert memory_mb(rest) < 500
        told = dict.fromkeys(streams, b"")

        def refused() -> int:
            for stream in select.select(streams, [], [], 0.1)[0]:
                told[stream] += stream.recv(4096)
            return sum(b'"error_code":503' in each for each in told.values())

        wait_until(lambda: refused() >= 3)
    finally:
        for stream in streams:
            stream.close()


def test_a_long_stream_takes_no_memory(rest: Rest) -> None:
    api = Api(rest.port)
    cluster = api("GET", "/v3/clusters")[1]["data"][0]["cluster_id"]
    record = json.dumps({"value": {"type": "STRING", "data": "x" * 10_000}}).encode()
    before = memory_mb(rest)

    def body() -> Iterator[bytes]:
        for _ in range(300):
            yield record * 10

    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=120)
    kind = {"Content-Type": "application/json"}
    reports: list[Any] = []
    connection.request("POST", f"/v3/clusters/{cluster}/topics/stream/records", body(), kind, encode_chunked=True)
    reports = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    connection.close()
    assert [each["error_code"] for each in reports] == [200] * 3_000
    assert memory_mb(rest) - before < 60  # of 30 MB that went through, and the producer's buffer of 32


def test_one_record_above_the_limit_in_a_stream(rest: Rest) -> None:
    api = Api(rest.port)
    cluster = api("GET", "/v3/clusters")[1]["data"][0]["cluster_id"]
    body = b'{"value":{"type":"STRING","data":"' + b"x" * 2_000_000 + b'"}}{"value":{"type":"STRING","data":"ok"}}'
    _, text = api("POST", f"/v3/clusters/{cluster}/topics/stream/records", body)
    told = [json.loads(line) for line in text.splitlines()]
    assert told[0]["error_code"] >= 400
    assert told[1]["error_code"] == 200
