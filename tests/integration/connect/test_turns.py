"""Turns of tasks against a real node: what goes into topics and out of them, offsets, errors and dead letters."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.offsets import committed_offsets
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane.turns import run_turn
from tests.support.waiting import wait_until

Bench = Any
JSON = "org.apache.kafka.connect.json.JsonConverter"


def write(bench: Bench, topic: str, *values: str, **rest: Any) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for value in values:
            producer.send(topic, value.encode(), **rest)
        producer.flush()


def source(path: Path, topic: str, **rest: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(path), "topic": topic} | rest


def sink(path: Path, topic: str, **rest: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(path), "topics": topic} | rest


def test_lines_go_to_a_topic_and_the_offset_is_in_the_same_transaction(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("foo\nbar\nunfinis")
    bench.start("lines-in", source(path, "lines"), offsets_topic="offsets")
    assert bench.turns("lines-in") == 2
    assert bench.values("lines") == ["foo", "bar"]
    (record,) = bench.read("offsets")
    assert json.loads(record.key or b"") == ["lines-in", {"filename": str(path)}]
    assert json.loads(record.value or b"") == {"position": 8}
    with open(path, "a") as file:
        file.write("hed\n")
    assert bench.turns("lines-in") == 1
    assert bench.values("lines") == ["foo", "bar", "unfinished"]


def test_another_worker_goes_on_where_the_first_stopped_and_fences_it(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\n")
    bench.start("taken", source(path, "taken"), offsets_topic="taken-offsets")
    assert bench.turns("taken") == 1
    with open(path, "a") as file:
        file.write("two\n")
    bench.planner.running["taken"].tasks[0].due_at = 0.0
    (late,) = bench.planner.due(["taken"])  # the first worker is about to write
    other = type(bench)(bench.servers)
    other.start("taken", source(path, "taken"), offsets_topic="taken-offsets")
    assert other.turns("taken") == 1
    outcome = run_turn(late)
    assert outcome.failed
    assert "PRODUCER_FENCED" in outcome.trace or "INVALID_PRODUCER_EPOCH" in outcome.trace
    assert bench.values("taken") == ["one", "two"]
    other.planner.close()


def test_a_chain_of_transformations_with_a_predicate(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("foo\n")
    chain = {
        "transforms": "hoist,insert,route",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.insert.static.field": "data_source",
        "transforms.insert.static.value": "test-file-source",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "never",
        "transforms.route.predicate": "other",
        "predicates": "other",
        "predicates.other.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.other.pattern": "other",
    }
    bench.start("chain", source(path, "chained", **chain))
    bench.turns("chain")
    assert bench.values("chained") == ["Struct{line=foo,data_source=test-file-source}"]


def test_a_sink_begins_at_its_groups_offsets_and_commits_them(bench: Bench, tmp_path: Path) -> None:
    write(bench, "out", "a", "b")
    bench.start("lines-out", sink(tmp_path / "out.txt", "out"))
    assert bench.turns("lines-out") == 2
    write(bench, "out", "c")
    other = type(bench)(bench.servers)
    other.start("lines-out", sink(tmp_path / "out.txt", "out"))
    assert other.turns("lines-out") == 1
    assert (tmp_path / "out.txt").read_text() == "a\nb\nc\n"
    with Cluster(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as cluster:
        found = committed_offsets(cluster, "connect-lines-out")
    assert {tp: each.offset for tp, each in found.items()} == {("out", 0): 3}
    other.planner.close()


def test_a_poison_record_fails_the_task_with_connects_words(bench: Bench, tmp_path: Path) -> None:
    write(bench, "poison", '{"a":1}', "{", '{"a":2}')
    settings = sink(
        tmp_path / "out.txt", "poison", **{"value.converter": JSON, "value.converter.schemas.enable": "false"}
    )
    bench.start("strict", settings)
    bench.turns("strict")
    state, trace = bench.states("strict")[-1]
    assert state == "FAILED"
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n")
    assert trace.splitlines()[1] == "The record has offset 1 in poison-0"
    assert "Caused by: org.apache.kafka.connect.errors.DataException: Converting byte[] to Kafka Connect data" in trace
    assert not (tmp_path / "out.txt").exists()
    assert bench.turns("strict") == 0  # until it is restarted


def test_tolerated_records_become_dead_letters_with_their_context(bench: Bench, tmp_path: Path) -> None:
    write(bench, "letters-in", '{"a":1}', "{", '{"a":2}', key=b"k", headers=[("h", b"1")])
    settings = sink(
        tmp_path / "out.txt",
        "letters-in",
        **{
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "letters",
            "errors.deadletterqueue.context.headers.enable": "true",
            "errors.log.enable": "true",
        },
    )
    bench.start("tolerant", settings)
    bench.turns("tolerant")
    assert (tmp_path / "out.txt").read_text() == "{a=1}\n{a=2}\n"
    (letter,) = bench.read("letters")
    assert (letter.key, letter.value) == (b"k", b"{")
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    assert headers["h"] == "1"
    assert headers.pop("__connect.errors.exception.stacktrace").count("Traceback") == 1
    assert headers["__connect.errors.exception.message"].startswith("Converting byte[] to Kafka Connect data failed")
    expected = {
        "topic": "letters-in",
        "partition": "0",
        "offset": "1",
        "connector.name": "tolerant",
        "task.id": "0",
        "stage": "VALUE_CONVERTER",
        "class.name": JSON,
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
    }
    assert {name: headers[f"__connect.errors.{name}"] for name in expected} == expected
    (logged,) = [each for each in bench.events if each["event"] == "log"]
    assert "Executing stage 'VALUE_CONVERTER'" in logged["lines"][0]


def test_a_source_has_dead_letters_too(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("1\nx\n3\n")
    settings = source(
        path,
        "numbers",
        **{
            "transforms": "cast",
            "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
            "transforms.cast.spec": "int32",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": "numbers-letters",
        },
    )
    bench.start("numbers", settings)
    bench.turns("numbers")
    assert bench.values("numbers") == ["1", "3"]
    assert bench.values("numbers-letters") == ["x"]


@pytest.mark.parametrize("paused", [True, False])
def test_a_paused_connector_has_no_turn(bench: Bench, tmp_path: Path, paused: bool) -> None:
    path = tmp_path / "in.txt"
    path.write_text("foo\n")
    name = f"paused-{paused}"
    bench.start(name, source(path, name), state="PAUSED")
    bench.planner.pause(name, paused)
    assert bench.turns(name) == (0 if paused else 1)


def test_a_source_that_does_not_answer_keeps_no_other_waiting(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.pipelines.connect.connectors.files import FileStreamSource

    silent, other, answers = tmp_path / "silent.txt", tmp_path / "other.txt", threading.Event()
    has_news = FileStreamSource.has_news

    def look(self: FileStreamSource, offsets: Any) -> bool:
        if self.values["file"] == str(silent):
            answers.wait(60)
        return has_news(self, offsets)

    monkeypatch.setattr(FileStreamSource, "has_news", look)
    bench.planner.look_wait_s = 0.1
    silent.write_text("late\n")
    other.write_text("soon\n")
    bench.start("silent", source(silent, "silent"))
    bench.start("other", source(other, "other"))
    wait_until(lambda: bench.turns("silent", "other", rounds=1) == 1, "the other has its turn")
    assert bench.values("other") == ["soon"]
    assert bench.states("silent") == [("RUNNING", "")]
    answers.set()
    wait_until(lambda: bench.turns("silent", rounds=1), "the source answers")
    assert bench.values("silent") == ["late"]


def test_one_request_asks_for_the_ends_of_all_sinks(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"many-{number}" for number in range(20)]
    for name in names:
        write(bench, name, "foo")
        bench.start(name, sink(tmp_path / name, name))
    assert bench.turns(*names, rounds=1) == 20
    asked: list[int] = []
    list_offsets = Cluster.list_offsets

    def listed(self: Cluster, wanted: Any, **rest: Any) -> Any:
        asked.append(len(wanted))
        return list_offsets(self, wanted, **rest)

    monkeypatch.setattr(Cluster, "list_offsets", listed)
    assert bench.turns(*names, rounds=1) == 0
    assert asked == [20]
    write(bench, names[7], "bar")
    assert bench.turns(*names, rounds=1) == 1


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_limit_of_records_a_second(bench: Bench, tmp_path: Path, kind: str) -> None:
    """What a turn moved too fast is waited for."""
    path, name = tmp_path / "file.txt", f"limited-{kind}"
    if kind == "source":
        path.write_text("foo\n" * 1_000)
        settings = source(path, name)
    else:
        write(bench, name, *["foo"] * 1_000)
        settings = sink(path, name)
    bench.start(name, settings | {"max.records.per.second": "100"})
    began = time.monotonic()
    (turn,) = bench.planner.due([name])
    assert turn.limit_records == 200
    outcome = run_turn(turn)
    assert not outcome.failed, outcome.trace
    bench.planner.done(outcome)
    waits_s = bench.planner.running[name].tasks[0].due_at - began
    assert waits_s == pytest.approx(outcome.records / 100, abs=2.0)
    assert bench.planner.due([name]) == []


def test_a_full_disk_is_waited_for_and_nothing_is_lost(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.symlink_to("/dev/full")
    write(bench, "much", "foo", "bar")
    bench.start("full", sink(path, "much"))
    bench.turns("full", rounds=1)
    state, trace = bench.states("full")[-1]
    assert state == "RUNNING"
    assert trace == "trying again in 1 s: OSError: [Errno 28] No space left on device"
    path.unlink()
    assert bench.turns("full") == 2
    assert path.read_text() == "foo\nbar\n"


def test_no_turn_begins_while_the_group_changes_and_its_end_is_waited_for(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("one\n")
    bench.start("held", source(path, "held"))
    (turn,) = bench.planner.due(["held"])
    bench.planner.hold(7)
    assert not any(each["event"] == "stopped" for each in bench.events), "a turn is under way"
    bench.planner.done(run_turn(turn))
    assert {"event": "stopped", "id": 7} in bench.events
    with open(path, "a") as file:
        file.write("two\n")
    assert bench.turns("held") == 0
    bench.planner.release()
    assert bench.turns("held") == 1
    assert bench.values("held") == ["one", "two"]


def test_a_partition_that_moves_to_another_task_waits_for_the_turn_that_has_it(bench: Bench, tmp_path: Path) -> None:
    """A new topic moves all partitions behind it."""
    write(bench, "moving-b", "b")
    settings = sink(tmp_path / "out.txt", "", **{"topics.regex": "moving-.*", "tasks.max": "2"})
    settings.pop("topics")
    bench.start("moving", settings)
    (late,) = bench.planner.due(["moving"])
    assert late.partitions == [("moving-b", 0)]
    write(bench, "moving-a", "a")
    found = bench.planner.running["moving"]
    found.looked_at = float("-inf")
    for task in found.tasks:
        task.due_at = 0.0
    assert bench.planner.due(["moving"]) == [], "the first task is busy, and the second would have its partition"
    bench.planner.done(run_turn(late))
    assert bench.turns("moving") == 1
    assert sorted((tmp_path / "out.txt").read_text().split()) == ["a", "b"]
