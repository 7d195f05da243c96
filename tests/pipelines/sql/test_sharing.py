"""Queries that keep nothing share a Spark query, come and go, and write every row once."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.fetcher import FetchSettings
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.offsets import StreamOffset
from barnabas.pipelines.spark.sink.link import SinkLink
from barnabas.pipelines.spark.sink.messages import Digest, Trace, Turn, Unrepeatable
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.transactions import CommittedOffset
from barnabas.pipelines.spark.sink.turn import begin_turn
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.pipelines.streams.position import leave
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.testing import Node
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
PACE_S = 0.003


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture
def server(node: Node, tmp_path: Path) -> Iterator[SqlServer]:
    try:
        find_java()
    except JavaMissing as error:
        pytest.skip(str(error))
    started = SqlServer(node.bootstrap_servers, tmp_path).start()
    yield started
    started.kill()


def client(node: Node) -> ClientSettings:
    return ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)


def committed(node: Node, topic: str) -> list[int]:
    with AssignedConsumer(client(node), ConsumerSettings(fetch=FetchSettings(isolation="read_committed"))) as consumer:
        places = [(topic, 0), (topic, 1)]
        ends = consumer.offsets_at(dict.fromkeys(places, -1))
        consumer.assign(dict.fromkeys(places, -2))
        found = []
        while any(consumer.positions[place] < ends[place] for place in places):
            found += [json.loads(record.value or b"{}")["V"] for record in consumer.poll(500)]
        return sorted(found)


class Writer(threading.Thread):
    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self.stopped, self.count, self._producer = threading.Event(), 0, Producer(client(node))

    def run(self) -> None:
        while not self.stopped.wait(PACE_S):
            self._producer.send("s", b'{"v": %d}' % self.count, key=b"k%d" % (self.count % 20))
            self.count += 1
        self._producer.close(30)


def queries(server: SqlServer) -> dict[str, str]:
    """Ids and states, by sink."""
    found = server.run("SHOW QUERIES;")[0]["queries"]
    return {one["sinks"][0]: one["id"] for one in found}


def shares(server: SqlServer, sinks: set[str]) -> bool:
    """Whether these run in one Spark query, and no others."""
    ids = queries(server)
    pointers = list(server.directory.glob("state/*/*/shared.json"))
    places = {one.parent.name: json.loads(one.read_text())["checkpoint"] for one in pointers}
    used = {places.get(ids[sink]) for sink in sinks}
    place = server.directory.glob(f"state/*/_shared/{used.pop()}/queries.json")
    return not used and {name for one in place for name in json.loads(one.read_text())} == {ids[one] for one in sinks}


def test_queries_come_and_go_while_records_come_and_each_row_is_there_once(node: Node, server: SqlServer) -> None:
    server.run(
        """CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
        CREATE STREAM a AS SELECT * FROM s; CREATE STREAM b AS SELECT * FROM a; CREATE STREAM even AS SELECT * FROM s
        WHERE v / 2 * 2 = v;""",
        auto_offset_reset="earliest",
    )
    writer = Writer(node)
    writer.start()

    def flows(sink: str) -> None:
        before = len(committed(node, sink))
        wait_until(lambda: len(committed(node, sink)) > before + 20, f"rows in {sink}", 120)

    flows("B")
    wait_until(lambda: shares(server, {"A", "B", "EVEN"}), "a chain and a filter share", 60)
    server.run("CREATE STREAM late AS SELECT * FROM s;", auto_offset_reset="earliest")
    flows("LATE")
    server.run(f"PAUSE {queries(server)['A']};")
    wait_until(lambda: shares(server, {"B", "EVEN", "LATE"}), "the others share", 60)
    flows("EVEN")
    server.run(f"TERMINATE {queries(server)['EVEN']};")
    flows("LATE")
    server.run(f"RESUME {queries(server)['A']};")
    flows("B")
    server.kill()
    flows_after = len(committed(node, "B"))
    server.start()
    wait_until(lambda: len(committed(node, "B")) > flows_after, "rows after a kill", 180)
    wait_until(lambda: shares(server, {"A", "B", "LATE"}), "all that are left share", 60)
    server.run("CREATE OR REPLACE STREAM late AS SELECT * FROM s WHERE v >= 0;")
    flows("LATE")
    writer.stopped.set()
    writer.join(60)
    everything = list(range(writer.count))
    for sink in ("A", "B", "LATE"):
        wait_until(lambda sink=sink: len(committed(node, sink)) >= writer.count, f"all of {sink}", 120)  # type: ignore[misc]
        assert committed(node, sink) == everything
    even = committed(node, "EVEN")
    assert even == everything[: 2 * len(even) : 2]
    assert not [one for one in server.directory.glob("state/*/_shared/*/queries.json") if len(one.read_text()) < 9]


def test_who_fails_again_and_again_fails_alone(tmp_path: Path) -> None:
    try:
        find_java()
    except JavaMissing as error:
        pytest.skip(str(error))
    with Node(config={"auto.create.topics.enable": "false"}) as node:
        server = SqlServer(node.bootstrap_servers, tmp_path).start()
        writer = Writer(node)
        try:
            server.run(
                """CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=2);
                CREATE STREAM good AS SELECT * FROM s; CREATE STREAM bad AS SELECT * FROM s;""",
                auto_offset_reset="earliest",
            )
            writer.start()
            wait_until(lambda: len(committed(node, "BAD")) > 20, "rows of both", 120)
            with Cluster(client(node)) as cluster:
                from barnabas.client.admin.topics import delete_topics

                delete_topics(cluster, ["BAD"])

            def state(sink: str) -> str:
                found = server.run("SHOW QUERIES;")[0]["queries"]
                return next(str(one["state"]) for one in found if one["sinks"] == [sink])

            wait_until(lambda: (state("GOOD"), state("BAD")) == ("RUNNING", "ERROR"), "one fails", 240)
            writer.stopped.set()
            writer.join(60)
            wait_until(lambda: len(committed(node, "GOOD")) >= writer.count, "all of the other", 240)
            assert committed(node, "GOOD") == list(range(writer.count))
        finally:
            writer.stopped.set()
            server.kill()


def noted(directory: Path, log: str, batch: int, offset: dict[str, Any] | None = None) -> None:
    (directory / log).mkdir(parents=True, exist_ok=True)
    lines = ["v1", "{}"] + ([] if offset is None else [json.dumps(offset)])
    (directory / log / str(batch)).write_text("\n".join(lines))


def test_a_batch_that_was_given_up_is_left_where_each_of_its_tasks_was(node: Node, tmp_path: Path) -> None:
    query = uuid.uuid4().hex
    directory = LocalDirectory(tmp_path)
    directory.write("metadata", json.dumps({"id": query}).encode())
    noted(tmp_path, "offsets", 0, {"s": {"0": 10, "1": 5}, "$first": {"s": {"0": 0, "1": 0}}})
    noted(tmp_path, "commits", 0)
    noted(tmp_path, "offsets", 1, {"s": {"0": 20_000, "1": 30_000}})
    settings = {"kafka.bootstrap.servers": node.bootstrap_servers}
    options = SinkOptions.parse({**settings, "exactlyOnce": "true"})
    link = SinkLink(options.properties)
    for task, batch in ((0, 0), (1, 1)):  # each of them as large as a task may be
        name = f"barnabas.{query}.sink.{task}"
        transaction = link.transactions.begin(name, 60_000)
        mark = CommittedOffset(batch + 1, str(Trace(Digest(0, 1), "run")))
        link.transactions.leave_mark(transaction, options.anchor_topic, mark)
        link.transactions.end(transaction, commit=True)
    expected = {("s", 0): 10, ("s", 1): 30_000}
    assert leave(directory, settings, exactly_once=True).offsets == expected
    (tmp_path / "barnabas" / "left.json").unlink()  # as if the driver had died before it noted that
    assert leave(directory, settings, exactly_once=True) == StreamOffset(expected)
    with pytest.raises(Unrepeatable):  # a driver that has not heard of it
        begin_turn(Turn(f"barnabas.{query}.sink.", 0, 1), link, options)
    link.close()
