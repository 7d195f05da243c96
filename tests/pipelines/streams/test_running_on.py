"""Batches that run on: what is written and counted is exact however runs with and without it follow each other."""

from __future__ import annotations

import json
import os
import pickle
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from barnabas.client.batch_sender import BatchSender
from barnabas.pipelines.spark import clients
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.pipelines.spark.reading_on import ReadingOn, Steps
from barnabas.pipelines.spark.sink import link, own_turn
from barnabas.pipelines.spark.sink.transactions import TransactionalProducer
from barnabas.pipelines.streams import run as runs
from barnabas.pipelines.streams import running_on
from barnabas.pipelines.streams.compiled import first_stage
from barnabas.pipelines.streams.plan import planned
from barnabas.pipelines.streams.sink import topic_sink
from barnabas.pipelines.streams.source import StageReader, packed
from barnabas.pipelines.streams.stage import StageWork, forget_states
from barnabas.pipelines.streams.state.storage import LocalDirectory, Storage
from barnabas.pipelines.streams.state.versions import PartitionState
from barnabas.streams import STRING, StreamsRun, Topology
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 240.0
RUN_ON_MS = 1_500
DEATHS = 12
SEEDS = range(int(os.environ.get("BARNABAS_STORIES", "1")))


def start(spark: Any, stage: Any, topics: list[str], checkpoint: Path, run_on_ms: int, **more: Any) -> StreamsRun:
    read, copies, counts = topics
    topology = Topology("on", processing_guarantee="exactly_once_v2")
    records = topology.stream(read, value=STRING)
    records.to(copies)
    records.group_by_key().count(store="counts").to(counts)
    given = {"bootstrap_servers": stage.servers, "checkpoint": checkpoint, "run_on_ms": run_on_ms}
    return topology.start(spark, **given, **more)


def test_runs_that_are_broken_off_and_go_on_in_other_ways_give_every_record_once(
    spark: Any, stage: Any, tmp_path: Path
) -> None:
    topics = [stage.topic(partitions=2) for _ in range(3)]
    written: list[tuple[str, str]] = []

    def copied() -> list[tuple[str, str]]:
        return [one for partition in (0, 1) for one in stage.read_committed(topics[1], partition)]

    def write_until(seen: int, has_run_on: Callable[[], bool]) -> None:
        """One record at a time, until so many more have come through."""
        seen += len(copied())
        ends = time.monotonic() + LIMIT_S
        while len(copied()) < seen or not has_run_on():
            assert time.monotonic() < ends, "records do not come through"
            for _ in range(4):
                number = len(written)
                written.append((f"k{number % 5}", str(number)))
                stage.write(topics[0], [written[-1][1]], number % 5 % 2, keys=[written[-1][0]])

    for run_on_ms in (RUN_ON_MS, 0, RUN_ON_MS):
        run = start(spark, stage, topics, tmp_path / "checkpoint", run_on_ms)
        sink = run._sink
        assert sink is not None
        write_until(80, lambda sink=sink, on=run_on_ms: not on or bool(sink.ran_on().ends))
        run.stop()  # in the middle of a batch, nearly always
    run = start(spark, stage, topics, tmp_path / "checkpoint", RUN_ON_MS)
    wait_until(lambda: len(copied()) >= len(written), limit_s=LIMIT_S)
    counts = Counter(key for key, _ in written)
    wait_until(lambda: dict(run.store("counts").all()) == counts, limit_s=LIMIT_S)
    wait_until(lambda: "$figures" in str(run.queries[0].lastProgress["sources"][0]["latestOffset"]), limit_s=LIMIT_S)
    run.stop()
    last = start(spark, stage, topics, tmp_path / "checkpoint", 0, trigger={"availableNow": True})
    assert last.await_termination(LIMIT_S)
    assert sorted(copied()) == sorted(written)
    assert dict(last.store("counts").all()) == counts


def test_a_topology_runs_on_by_itself_where_nothing_speaks_against_it(spark: Any, stage: Any, tmp_path: Path) -> None:
    """The session has two cores, and one of them is left for others."""
    read, written = stage.topic(), stage.topic()
    made: list[StreamsRun] = []

    def started(name: str, guarantee: str = "exactly_once_v2", store: str | None = None, **more: Any) -> StreamsRun:
        topology = Topology(name, processing_guarantee=guarantee)
        topology.stream(read, value=STRING).group_by_key().count(store=store).to(written)
        made.append(topology.start(spark, bootstrap_servers=stage.servers, checkpoint=tmp_path / name, **more))
        return made[-1]

    def has_run_on(run: StreamsRun) -> bool:
        stage.write(read, ["x"], keys=["a"])
        assert run._sink is not None
        return bool(run._sink.ran_on().ends)

    try:
        for refused in (
            started("asked", store="counts"),
            started("slow", trigger={"processingTime": "1 second"}),
            started("bounded", max_batch_records=10),
            started("doubled", guarantee="at_least_once"),
            started("never", run_on_ms=0),
        ):
            assert refused.run_on_ms == 0
            refused.stop()
        first = started("first")
        assert first.run_on_ms == 1000
        wait_until(lambda: has_run_on(first), limit_s=LIMIT_S)
        assert started("second").run_on_ms == 0
        first.stop()
        assert started("third").run_on_ms == 1000
    finally:
        for run in made:
            run.stop()


def test_a_run_whose_session_is_gone_takes_no_core_from_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    topology = Topology("next", processing_guarantee="exactly_once_v2")
    topology.stream("in", value=STRING).to("out")
    plan = planned(topology.graph, {"in": 1}, {"out": 1}, state=f"{tmp_path}/state", dead_letter=None)
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))

    class Gone:
        @property
        def isActive(self) -> bool:
            raise ConnectionRefusedError("the JVM is gone")

    def of(query: Any) -> set[StreamsRun]:
        return {StreamsRun(topology, [query], LocalDirectory(tmp_path), run_on_ms=1000)}

    monkeypatch.setattr(runs, "_running", of(Gone()))
    assert runs.default_run_on_ms(topology, plan, session, exactly_once=True) == 1000
    monkeypatch.setattr(runs, "_running", of(SimpleNamespace(isActive=True)))
    assert runs.default_run_on_ms(topology, plan, session, exactly_once=True) == 0


def test_steps_are_told_and_read_back() -> None:
    ranges = [OffsetRange(("t", 0), 5, 5, "id"), OffsetRange(("t", 1), 7, 7, "id")]
    steps = Steps.at(ranges)
    assert (str(steps), steps.last()) == ("", {})
    steps = steps.with_step({("t", 0): 6, ("t", 1): 7}).with_step({("t", 0): 9, ("t", 1): 8})
    assert Steps.parse(str(steps)) == steps
    assert steps.last() == {("t", 0): 9, ("t", 1): 8}
    assert Steps.parse("") == Steps(())


class Died(BaseException):
    """As if the process had been killed here."""


class Story:
    """Spark's part by hand: offsets noted before a batch, a task for it, the batch noted as done. Drivers die with
    their workers at chosen points; records come in whenever a task looks for more."""

    def __init__(self, stage: Any, directory: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage, self.directory, self.chance = stage, directory, random.Random(seed)
        self.topics = [stage.topic(partitions=2) for _ in range(3)]
        self.written: list[tuple[str, str]] = []
        self.offsets: list[dict[str, Any]] = []
        self.done = 0
        self.runs = 0
        self.points_left = 0
        self.properties: dict[str, str] = {}
        (directory / "metadata").write_text(json.dumps({"id": f"story-{seed}-{os.urandom(3).hex()}"}))
        self._take_the_place_of_spark(monkeypatch)
        self._prepare_deaths(monkeypatch)

    def _take_the_place_of_spark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyspark.taskcontext import TaskContext

        context = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=lambda name: self.properties.get(name))
        monkeypatch.setattr(TaskContext, "get", lambda: context)
        monkeypatch.setattr(running_on, "PACE_S", 0.0)
        read = ReadingOn.read

        def read_after_writing(reading: ReadingOn, limit_s: float) -> Any:
            if self.chance.random() < 0.8:
                self.write(self.chance.randrange(1, 4))
            return read(reading, 0.02)

        monkeypatch.setattr(ReadingOn, "read", read_after_writing)

    def _prepare_deaths(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that dies aborts nothing."""
        monkeypatch.setattr(own_turn, "abort_quietly", lambda *_: None)
        for kind, name in ((TransactionalProducer, "end"), (BatchSender, "flush"), (StageWork, "save")):
            original = getattr(kind, name)

            def dying(*given: Any, original: Any = original, **more: Any) -> Any:
                self._point()
                found = original(*given, **more)
                self._point()
                return found

            monkeypatch.setattr(kind, name, dying)

    def _point(self) -> None:
        self.points_left -= 1
        if self.points_left == 0:
            raise Died

    def write(self, count: int) -> None:
        for _ in range(count):
            key = self.chance.randrange(5)
            self.written.append((f"k{key}", str(len(self.written))))
            self.stage.write(self.topics[0], [self.written[-1][1]], key % 2, keys=[self.written[-1][0]])

    def live(self, points: int) -> None:
        """A driver and its worker, until they die at the point of that number, or nothing is left to do if it is 0."""
        self.points_left = points
        self.runs += 1
        forget_states()
        clients.close_all()
        link.drop_link(self._function().sink.options.properties)
        reader = self._reader(0 if not points or self.chance.random() < 0.2 else 200)
        try:
            while self._do_batch(reader) or points:
                if self.chance.random() < 0.3:
                    self.write(self.chance.randrange(1, 6))
        except Died:
            pass
        finally:
            reader.stop()

    def _do_batch(self, reader: StageReader) -> bool:
        before = self.offsets[self.done - 1] if self.done else reader.initialOffset()
        if len(self.offsets) == self.done:
            end = reader.latestOffset(before, ReadAllAvailable())
            if end == before:
                return False
            self.offsets.append(json.loads(json.dumps(end)))
        self.properties = {
            "streaming.sql.batchId": str(self.done),
            "sql.streaming.queryId": json.loads((self.directory / "metadata").read_text())["id"],
            "spark.jobGroup.id": f"run-{self.runs}",
        }
        tasks = reader.partitions(before, self.offsets[self.done])
        assert len(tasks) <= 1
        for task in tasks:
            for _ in reader.read(pickle.loads(pickle.dumps(task))):
                pass
        self.done += 1
        (self.directory / "commits").mkdir(exist_ok=True)
        (self.directory / "commits" / str(self.done - 1)).touch()
        return True

    def _reader(self, run_on_ms: int) -> StageReader:
        given = {"kafka.bootstrap.servers": self.stage.servers, "subscribe": self.topics[0], "idleWait": "0"}
        given |= {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
        given |= {"columns": "key,value,partition,offset,timestamp,headers"}
        options = SourceOptions.parse(given)
        return StageReader(options, options.columns, packed(self._function()), run_on_ms)

    def _function(self) -> Any:
        read, copies, counts = self.topics
        topology = Topology("on", processing_guarantee="exactly_once_v2")
        records = topology.stream(read, value=STRING)
        records.to(copies)
        records.group_by_key().count(store="counts").to(counts)
        plan = planned(
            topology.graph,
            {read: 2},
            {copies: 2, counts: 2},
            state=str(self.directory / "barnabas" / "state"),
            dead_letter=None,
            skips=False,
            state_cache_bytes=self.chance.choice((0, 1 << 20)),
            storage=Storage(synced=False),
        )
        sink = topic_sink(plan, {"kafka.bootstrap.servers": self.stage.servers}, exactly_once=True)
        return first_stage(plan, sink)[0]

    def counted(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for partition in (0, 1):
            state = PartitionState(self.directory / "barnabas" / "state" / "0" / str(partition))
            state.load(self.done)
            found |= dict(state.store("counts").data.items())
        return found


@pytest.mark.parametrize("seed", SEEDS)
def test_drivers_and_workers_that_die_anywhere_leave_every_record_counted_and_copied_once(
    stage: Any, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(stage, tmp_path, seed, monkeypatch)
    story.write(3)
    for _ in range(DEATHS):
        story.live(story.chance.randrange(1, 20))
    story.live(0)
    copied = [one for partition in (0, 1) for one in stage.read_committed(story.topics[1], partition)]
    assert sorted(copied) == sorted(story.written)
    assert story.counted() == Counter(key for key, _ in story.written)
    shown = [one for partition in (0, 1) for one in stage.read_committed(story.topics[2], partition)]
    by_key: dict[str, list[int]] = {}
    for key, count in shown:
        by_key.setdefault(key, []).append(int(count))
    assert all(counts == sorted(set(counts)) for counts in by_key.values()), "a count was shown twice, or out of order"
    forget_states()
