"""The exactly-once protocol without Spark: what tasks and the driver do around every place where one may die."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from barnabas.client import transaction_requests as requests
from barnabas.client.admin.groups import list_groups
from barnabas.client.cluster import Cluster
from barnabas.client.offsets import CommittedOffset
from barnabas.client.transaction_requests import PreparedTransaction
from barnabas.pipelines.spark.sink.commit import abort_prepared, abort_turn, commit_prepared
from barnabas.pipelines.spark.sink.link import SinkLink
from barnabas.pipelines.spark.sink.messages import Digest, Message, Prepared, SinkError, Skipped, Trace, Turn
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.own_turn import OwnTurn
from barnabas.pipelines.spark.sink.rows import RowRules
from barnabas.pipelines.spark.sink.turn import write_turn
from barnabas.testing import Node
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support import reference

numbers = itertools.count(1)
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture(scope="module", params=["barnabas", "apache"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "barnabas":
        with Node(PROPERTIES) as node:
            yield node.bootstrap_servers
        return
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    with reference.ApacheKafka(properties={"node.id": "1", **PROPERTIES}) as kafka:
        yield kafka.bootstrap_servers


class Query:
    """A query with its sink: its runs are links of their own, its batches are lists of rows for each task."""

    def __init__(self, servers: str, **options: str) -> None:
        self.topic = f"out-{next(numbers)}"
        self.prefix = f"barnabas.query-{self.topic}.sink."
        self.options = SinkOptions.parse(
            {"kafka.bootstrap.servers": servers, "exactlyOnce": "true", "topic": self.topic, **options}
        )
        self.rules = RowRules(self.topic, ("key", "value"))
        self.link = SinkLink(self.options.properties)
        self.runs = itertools.count(1)
        self.run = "run-0"
        self._create(servers)

    def _create(self, servers: str) -> None:
        topic = CreatableTopic(name=self.topic, num_partitions=3, replication_factor=1)
        made = self.link.cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        assert made.topics[0].error_code == 0

    def restart(self) -> None:
        self.link.close()
        self.link = SinkLink(self.options.properties)
        self.run = f"run-{next(self.runs)}"

    def task(self, batch: int | None, task: int, rows: list[str]) -> Message:
        turn = Turn(self.prefix, task, batch, self.run)
        return write_turn(turn, columns(rows), self.rules, self.link, self.options)

    def own_turn(self, batch: int, part: Digest) -> OwnTurn:
        return OwnTurn(Turn(self.prefix, 0, batch, self.run), self.rules, self.link, self.options, part)

    def tasks(self, batch: int, *rows: list[str]) -> list[Message]:
        return [self.task(batch, number, each) for number, each in enumerate(rows)]

    def commit(self, messages: list[Message]) -> None:
        commit_prepared(messages, self.link, self.options)

    def end(self, message: Message) -> None:
        assert isinstance(message, Prepared)
        self.link.transactions.end(message.transaction, commit=True)

    def write(self, batch: int, *rows: list[str]) -> None:
        self.commit(self.tasks(batch, *rows))

    def output(self) -> list[str]:
        """The committed rows, sorted, once nothing open hides any."""
        return read_committed(self.link.cluster, self.topic, wait=True)


def columns(rows: list[str]) -> list[pa.RecordBatch]:
    found = {"key": [row[:1].encode() for row in rows], "value": [row.encode() for row in rows]}
    return [pa.RecordBatch.from_pydict(found, pa.schema([("key", pa.binary()), ("value", pa.binary())]))]


def read_committed(cluster: Cluster, topic: str, *, wait: bool) -> list[str]:
    from confluent_kafka import Consumer, TopicPartition

    ends = {(topic, number): -1 for number in cluster.topic(topic).partitions}
    deadline = time.monotonic() + 20
    while True:
        latest = cluster.list_offsets(ends)
        stable = cluster.list_offsets(ends, isolation="read_committed")
        if latest == stable or not wait:
            break
        assert time.monotonic() < deadline, "an open transaction hides the end of the topic"
        time.sleep(0.02)
    host, port = cluster.settings.bootstrap_servers[0]
    consumer = Consumer(
        {
            "bootstrap.servers": f"{host}:{port}",
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for _, number in ends])
    found, at_end = [], set()
    while len(at_end) < len(ends):
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            at_end.add(message.partition())
        else:
            found.append(message.value().decode())
    consumer.close()
    return sorted(found)


@pytest.fixture
def query(servers: str) -> Iterator[Query]:
    query = Query(servers)
    yield query
    query.link.close()


def test_batches_one_after_the_other(query: Query) -> None:
    query.write(0, ["a", "b"], ["c"])
    query.write(1, ["d"], [])
    query.write(2, [], ["e"])
    assert query.output() == ["a", "b", "c", "d", "e"]


def test_nothing_is_seen_before_the_driver_commits(query: Query) -> None:
    messages = query.tasks(0, ["a"], ["b"])
    assert read_committed(query.link.cluster, query.topic, wait=False) == []
    query.commit(messages)
    assert query.output() == ["a", "b"]


def test_a_run_that_died_after_its_tasks_began(query: Query) -> None:
    for task in (0, 1):
        query.link.transactions.begin(f"{query.prefix}{task}", 60_000)
    query.restart()
    query.write(0, ["a"], ["b"])
    assert query.output() == ["a", "b"]


def test_a_run_that_died_when_all_tasks_had_written(query: Query) -> None:
    query.tasks(0, ["a"], ["b"])
    query.restart()
    query.write(0, ["a"], ["b"])
    assert query.output() == ["a", "b"]


def test_a_run_that_died_between_two_commits(query: Query) -> None:
    query.write(0, ["x"], ["y"])
    messages = query.tasks(1, ["a", "b"], ["c"], ["d"])
    query.end(messages[0])
    query.restart()
    replay = query.tasks(1, ["b", "a"], ["c"], ["d"])
    assert isinstance(replay[0], Skipped)
    assert isinstance(replay[1], Prepared)
    query.commit(replay)
    assert query.output() == ["a", "b", "c", "d", "x", "y"]


def test_a_run_that_died_after_the_last_commit(query: Query) -> None:
    for message in query.tasks(0, ["a"], ["b"]):
        query.end(message)
    query.restart()
    query.write(0, ["a"], ["b"])
    query.restart()
    query.write(0, ["a"], ["b"])
    query.write(1, ["c"], [])
    assert query.output() == ["a", "b", "c"]


def test_an_attempt_shuts_out_the_one_before(query: Query) -> None:
    first = query.task(0, 0, ["a"])
    second = query.task(0, 0, ["a"])
    with pytest.raises(SinkError, match=r"task 0 of batch 0 of .* another attempt or another run"):
        query.commit([first])
    query.commit([second])
    assert query.output() == ["a"]


def test_a_driver_that_was_thought_dead_commits_nothing_of_a_replayed_batch(query: Query) -> None:
    old_messages, old_link = query.tasks(0, ["a"], ["b"]), query.link
    query.link, query.run = SinkLink(query.options.properties), "run-1"
    new_messages = query.tasks(0, ["a"], ["b"])
    with pytest.raises(SinkError, match="shut it out"):
        commit_prepared(old_messages, old_link, query.options)
    old_link.close()
    query.commit(new_messages)
    assert query.output() == ["a", "b"]


def test_other_rows_in_a_replay_are_refused_and_nothing_more_is_written(query: Query) -> None:
    messages = query.tasks(3, ["a"], ["b"])
    query.end(messages[0])
    query.restart()
    replay = query.tasks(3, ["A"], ["b"])
    with pytest.raises(SinkError, match=r"batch 3 of barnabas\..* is not deterministic: 1 tasks had committed 1 rows"):
        query.commit(replay)
    abort_prepared(replay, query.link)
    assert query.output() == ["a"]


def test_an_aborted_batch_leaves_nothing_open_not_even_of_tasks_that_were_killed(query: Query) -> None:
    messages = query.tasks(0, ["a"], ["b"], ["c"])
    abort_turn([messages[0], None, None], query.link, query.options, own_prefix="")
    assert query.output() == []


def test_a_write_that_was_given_up_leaves_nothing_open_whenever_its_tasks_come(query: Query) -> None:
    early = query.task(None, 0, ["a"])
    abort_turn([None, None], query.link, query.options, own_prefix=query.prefix)
    with pytest.raises(SinkError, match="task 1 of this write came after it had been given up"):
        query.task(None, 1, ["b"])
    with pytest.raises(SinkError, match="shut it out"):
        query.commit([early])
    assert query.output() == []


def test_a_task_that_begins_while_its_write_is_given_up_is_shut_out(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Message] = []
    leave_mark = query.link.transactions.leave_mark

    def begin_in_between(*arguments: Any) -> None:
        if not late:
            late.append(query.task(None, 0, ["a"]))
        leave_mark(*arguments)

    monkeypatch.setattr(query.link.transactions, "leave_mark", begin_in_between)
    abort_turn([None], query.link, query.options, own_prefix=query.prefix)
    assert len(late) == 1
    assert query.output() == []


def test_fewer_tasks_take_over_what_was_open(query: Query) -> None:
    query.tasks(0, ["a"], ["b"], ["c"], ["d"])
    query.restart()
    query.write(0, ["a", "b"], ["c", "d"])
    assert query.output() == ["a", "b", "c", "d"]


def test_more_tasks_take_over_what_was_open(query: Query) -> None:
    query.tasks(0, ["a", "b"], ["c", "d"])
    query.restart()
    query.write(0, ["a"], ["b"], ["c"], ["d"])
    assert query.output() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("replay", [[["a", "b", "c"]], [["b"], ["a"], ["c"], []], [["c"], ["a", "b"]]])
def test_a_batch_that_was_committed_whole_stays_so_however_its_rows_are_dealt(
    query: Query, replay: list[list[str]]
) -> None:
    for message in query.tasks(0, ["a"], ["b", "c"]):
        query.end(message)
    query.restart()
    query.write(0, *replay)
    query.write(1, ["d"])
    assert query.output() == ["a", "b", "c", "d"]


def test_other_tasks_for_half_a_batch_are_refused(query: Query) -> None:
    messages = query.tasks(0, ["a", "b"], ["c"])
    query.end(messages[0])
    query.restart()
    with pytest.raises(SinkError, match="not deterministic"):
        query.write(0, ["a"], ["b"], ["c"])
    query.restart()
    query.write(0, ["a", "b"], [], ["c"])
    assert query.output() == ["a", "b", "c"]


def test_a_checkpoint_that_is_older_than_the_output_is_refused(query: Query) -> None:
    for batch in range(3):
        query.write(batch, [str(batch)])
    query.restart()
    with pytest.raises(SinkError, match=r"batch 1 of .* batch 2 has been already: the checkpoint is older"):
        query.write(1, ["1"])
    assert query.output() == ["0", "1", "2"]


def test_a_batch_that_outlives_its_transactions_says_so_and_is_replayed(servers: str) -> None:
    query = Query(servers)
    patient, query.options = query.options, replace(query.options, transaction_timeout_ms=2_000)
    messages = query.tasks(0, ["a"], ["b"])
    deadline = time.monotonic() + 20
    while query.link.transactions.open_transactions(query.prefix):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(
        SinkError, match=r"longer than its transactions live \(2000 ms\).*kafka\.transaction\.timeout\.ms"
    ):
        query.commit(messages)
    query.restart()
    query.options = patient
    query.write(0, ["a"], ["b"])
    assert query.output() == ["a", "b"]
    query.link.close()


def test_a_task_that_is_shut_out_while_it_writes_says_so(query: Query) -> None:
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])

    def batches() -> Iterator[Any]:
        yield pa.RecordBatch.from_pydict({"key": [b"k"] * 20_000, "value": [bytes(100)] * 20_000}, schema)
        query.link.transactions.begin(f"{query.prefix}0", 60_000)
        yield pa.RecordBatch.from_pydict({"key": [b"k"] * 20_000, "value": [bytes(100)] * 20_000}, schema)

    with pytest.raises(SinkError, match=r"task 0 of batch 0 of .* shut it out"):
        write_turn(Turn(query.prefix, 0, 0, query.run), batches(), query.rules, query.link, query.options)
    assert query.output() == []


def test_a_task_that_fails_takes_its_rows_back(query: Query) -> None:
    def batches() -> Iterator[Any]:
        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        yield pa.RecordBatch.from_pydict({"key": [b"k"] * 20_000, "value": [bytes(100)] * 20_000}, schema)
        raise RuntimeError("the rows ran out")

    with pytest.raises(RuntimeError, match="ran out"):
        write_turn(Turn(query.prefix, 0, 0, query.run), batches(), query.rules, query.link, query.options)
    assert query.link.transactions.open_transactions(query.prefix) == []
    assert query.output() == []


def test_partitions_that_come_up_while_batches_are_under_way(query: Query) -> None:
    schema = pa.schema([("value", pa.binary()), ("partition", pa.int32())])

    def batches() -> Iterator[Any]:
        for partition in (0, 1, 2):
            values = [b"%d-%04d" % (partition, row) + bytes(1_000) for row in range(2_000)]
            yield pa.RecordBatch.from_pydict({"value": values, "partition": [partition] * 2_000}, schema)

    rules = RowRules(query.topic, ("value", "partition"))
    query.commit([write_turn(Turn(query.prefix, 0, 0, query.run), batches(), rules, query.link, query.options)])
    assert [value[:6] for value in query.output()] == [f"{p}-{row:04d}" for p in (0, 1, 2) for row in range(2_000)]


def test_a_write_outside_of_queries_leaves_no_trace(query: Query) -> None:
    turn = Turn(f"barnabas.write.{query.topic}.", 0, None)
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
    batch = pa.RecordBatch.from_pydict({"key": [None], "value": [b"a"]}, schema)
    message = write_turn(turn, [batch], query.rules, query.link, query.options)
    assert isinstance(message, Prepared)
    query.commit([message])
    assert query.output() == ["a"]
    assert query.link.transactions.last_mark(turn.transactional_id, query.options.anchor_topic) is None
    assert message.digest == Digest(), "nobody compares it"


def groups(query: Query) -> list[str]:
    return [each.group for each in list_groups(query.link.cluster) if each.group.startswith(query.prefix)]


def test_a_sink_leaves_no_group_behind(query: Query) -> None:
    query.write(0, ["a"], ["b"])
    query.write(1, ["c"], ["d"])
    assert query.output() == ["a", "b", "c", "d"]
    assert groups(query) == []


def leave_group(query: Query, task: int, batch: int, rows: list[str]) -> None:
    """What versions before marks committed beside the rows."""
    message = query.task(batch, task, rows)
    assert isinstance(message, Prepared)
    abort_prepared([message], query.link)
    anchor = query.options.former_anchor_topic
    if not query.link.cluster.metadata([anchor]).topics[anchor].partitions:
        topic = CreatableTopic(name=anchor, num_partitions=1, replication_factor=1)
        query.link.cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
    transaction = query.link.transactions.begin(message.turn.transactional_id, 60_000)
    prepared = PreparedTransaction(*transaction)
    offset = CommittedOffset(batch + 1, str(Trace(message.digest, query.run)))
    requests.add_group(query.link.cluster, prepared, transaction.transactional_id)
    requests.add_offsets(query.link.cluster, prepared, transaction.transactional_id, {(anchor, 0): offset})
    query.link.transactions.end(transaction, commit=True)


def test_a_batch_that_a_version_before_marks_has_committed_is_not_written_again(query: Query) -> None:
    leave_group(query, 0, 3, ["a"])
    leave_group(query, 1, 2, ["old"])
    query.restart()
    messages = query.tasks(3, ["a"], ["b"])
    assert [type(each) for each in messages] == [Skipped, Prepared]
    assert len(groups(query)) == 2
    query.commit(messages)
    assert query.output() == ["b"], "the first task's row was committed by the former version"
    query.write(4, ["c"], ["d"])
    assert query.output() == ["b", "c", "d"]
    assert groups(query) == []
    query.restart()
    assert [type(each) for each in query.tasks(4, ["c"], ["d"])] == [Skipped, Skipped]
    with pytest.raises(SinkError, match="the checkpoint is older than the output"):
        query.task(3, 0, ["a"])


def test_marks_are_read_on_from_where_they_were_and_anew_where_the_topic_is_new(query: Query) -> None:
    other = Query(",".join(f"{host}:{port}" for host, port in query.link.cluster.settings.bootstrap_servers))
    for batch in range(3):
        query.write(batch, [f"a{batch}"])
        other.write(batch, [f"b{batch}"])
    query.restart()
    assert isinstance(query.task(2, 0, ["a2"]), Skipped)
    assert isinstance(other.task(2, 0, ["b2"]), Skipped)
    other.link.close()


PART = Digest(0, 17)


def test_a_turn_goes_on_with_one_transaction_after_the_other(query: Query) -> None:
    query.write(0, ["a1"])
    turn = query.own_turn(1, PART)
    assert turn.committed is None
    for number, rows in enumerate((["a2", "b1"], [], ["a3"], ["c1", "b2"])):
        turn.write(columns(rows), f"step-{number}")
    turn.close()
    assert query.output() == ["a1", "a2", "a3", "b1", "b2", "c1"]
    query.restart()
    again = query.own_turn(1, PART)
    assert again.committed == Trace(PART, "run-0", "step-3")
    with pytest.raises(SinkError, match="not deterministic"):
        query.own_turn(1, Digest(0, 18))
    query.own_turn(2, PART).write(columns(["d1"]))
    assert query.output() == ["a1", "a2", "a3", "b1", "b2", "c1", "d1"]


def test_a_turn_that_another_has_taken_over_goes_on_no_more(query: Query) -> None:
    turn = query.own_turn(0, PART)
    turn.write(columns(["a1"]), "step-0")
    other = Query.__new__(Query)
    other.__dict__ |= query.__dict__ | {"link": SinkLink(query.options.properties), "run": "run-1"}
    taken = other.own_turn(0, PART)
    assert taken.committed == Trace(PART, "run-0", "step-0")
    with pytest.raises(SinkError, match="shut it out"):
        turn.write(columns(["a2"]), "step-1")
    with pytest.raises(SinkError, match="shut it out"):
        turn.write(columns(["a3"]), "step-2")
    other.own_turn(1, PART).write(columns(["b1"]))
    assert query.output() == ["a1", "b1"]
    other.link.close()
