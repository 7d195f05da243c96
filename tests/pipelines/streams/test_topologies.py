"""Topologies from topic to topic, by real queries of Spark on a real node, stopped and started again on the way."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

from barnabas.client.cluster import Cluster
from barnabas.client.partitioning import murmur2
from barnabas.client.settings import ClientSettings
from barnabas.client.transaction_requests import list_transactions
from barnabas.streams import (
    JSON,
    LONG,
    STRING,
    CheckpointError,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    TopicMissing,
    Topology,
    TopologyError,
    TopologyTestDriver,
    Windowed,
    col,
    open_store,
    time_windowed,
    tumbling,
)
from barnabas.streams import json as json_serde

pytestmark = pytest.mark.timeout(600)
NOW = {"availableNow": True}
LIMIT_S = 240.0


def start(topology: Topology, spark: Any, stage: Any, checkpoint: Path, **more: Any) -> Any:
    run = topology.start(spark, bootstrap_servers=stage.servers, checkpoint=checkpoint, trigger=NOW, **more)
    assert run.await_termination(LIMIT_S)
    return run


def committed(spark: Any, stage: Any, topic: str) -> list[Any]:
    """Records by partition and offset."""
    options = stage.options({"subscribe": topic, "kafka.isolation.level": "read_committed"})
    rows = spark.read.format("barnabas").options(**options).option("includeHeaders", "true").load().collect()
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def pairs(rows: list[Any]) -> list[tuple[str | None, str | None]]:
    return [tuple(None if one is None else bytes(one).decode() for one in (row.key, row.value)) for row in rows]  # type: ignore[misc]


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % count


def test_state_goes_on_where_it_was_and_results_come_once(spark: Any, stage: Any, tmp_path: Path) -> None:
    lines, rows = (stage.topic(partitions=2, retention_ms="-1") for _ in range(2))  # records of 1970
    large, counts, windows, joined = (stage.topic(partitions=3, retention_ms="-1") for _ in range(4))

    def built() -> Topology:
        topology = Topology("plant", processing_guarantee="exactly_once_v2")
        readings = topology.stream(lines)
        readings.filter(lambda key, value: value["n"] > 1).map_values(lambda value: value["n"]).to(large)
        readings.group_by(lambda key, value: value["kind"], key=STRING).count(store="kinds").to(counts, value=LONG)
        windowed = readings.group_by_key().windowed_by(tumbling(10)).aggregate(total=col("value.n").sum())
        windowed.to(windows)
        readings.left_join(topology.table(rows, value=STRING), lambda a, b: [a["n"], b]).to(joined, value=JSON)
        return topology

    def write(number: int, key: str, kind: str) -> None:
        value = json.dumps({"n": number, "kind": kind})
        stage.write(lines, [value], partition_of(key.encode(), 2), keys=[key], timestamp_ms=1000 + number)

    stage.write(rows, ["first"], partition_of(b"a", 2), keys=["a"], timestamp_ms=1)
    write(1, "a", "x")
    write(2, "b", "y")
    run = start(built(), spark, stage, tmp_path)
    assert list(run.store("kinds").all()) == [("x", 1), ("y", 1)]
    write(3, "a", "x")
    stage.write(rows, ["second"], partition_of(b"b", 2), keys=["b"], timestamp_ms=1010)
    write(12, "b", "x")
    start(built(), spark, stage, tmp_path)
    start(built(), spark, stage, tmp_path)  # nothing is new, and nothing is written again

    of_large = committed(spark, stage, large)
    assert sorted(pairs(of_large)) == [("a", "3"), ("b", "12"), ("b", "2")]
    assert sorted(round(row.timestamp.timestamp() * 1000) for row in of_large) == [1002, 1003, 1012]
    totals = committed(spark, stage, counts)
    assert sorted((bytes(row.key), LONG.decode(bytes(row.value))) for row in totals) == [
        (b"x", 1), (b"x", 3), (b"y", 1),
    ]  # fmt: skip
    assert all(row.partition == partition_of(bytes(row.key), 3) for row in totals)
    of_windows = committed(spark, stage, windows)
    serde = time_windowed(STRING, 10)
    assert sorted((serde.decode(bytes(row.key)), bytes(row.value).decode()) for row in of_windows) == [
        (Windowed("a", 1000, 1010), '{"total":1}'),
        (Windowed("a", 1000, 1010), '{"total":4}'),
        (Windowed("b", 1000, 1010), '{"total":2}'),
        (Windowed("b", 1010, 1020), '{"total":12}'),
    ]
    assert all(row.partition == partition_of(bytes(row.key)[:-8], 3) for row in of_windows)
    assert sorted(pairs(committed(spark, stage, joined))) == [
        ("a", '[1,"first"]'), ("a", '[3,"first"]'), ("b", '[12,"second"]'), ("b", "[2,null]"),
    ]  # fmt: skip
    kinds = open_store(tmp_path, "kinds")
    assert kinds.get("x") == 3
    assert list(kinds.range("y")) == [("y", 1)]


def test_columns_run_without_python_and_tell_of_bad_records_alike(spark: Any, stage: Any, tmp_path: Path) -> None:
    orders, out = stage.topic(), stage.topic()
    topology = Topology("orders")
    stream = topology.stream(orders, value=json_serde("id string, amount double"))
    stream.filter(col("value.amount") > 10).map_values(id=col("value.id"), twice=col("value.amount") * 2).to(out)
    stage.write(orders, ['{"id":"a","amount":10.5}', '{"id":"b","amount":1}', None], keys=["k", "k", "k"])
    run = start(topology, spark, stage, tmp_path)
    plan = run.queries[0]._jsq.explainInternal(False)
    assert "MapInArrow" not in plan
    (row,) = committed(spark, stage, out)
    assert pairs([row]) == [("k", '{"id":"a","twice":21.0}')]
    assert round(row.timestamp.timestamp() * 1000) == stage.now_ms
    stage.write(orders, ["no json"], keys=["k"])
    with pytest.raises(
        Exception, match=rf"source-0 \(.*\) can't go on with the record at offset 3 of {orders}-0: it is no JSON"
    ):
        start(topology, spark, stage, tmp_path)


def test_a_function_that_raised_is_mended_and_nothing_is_lost(spark: Any, stage: Any, tmp_path: Path) -> None:
    numbers, out = stage.topic(), stage.topic()

    def built(inverse: Any) -> Topology:
        topology = Topology("inverse", processing_guarantee="exactly_once_v2")
        topology.stream(numbers).map_values(inverse).group_by_key().reduce(lambda a, b: a + b).to(out, value=JSON)
        return topology

    stage.write(numbers, ["2", "0", "4"], keys=["a", "a", "a"])
    said = rf"map-values-1 \(.*\) can't go on with the record at offset 1 of {numbers}-0: ZeroDivisionError"
    with pytest.raises(Exception, match=said):
        start(built(lambda value: 1 / value), spark, stage, tmp_path)
    assert committed(spark, stage, out) == []
    start(built(lambda value: 1 / value if value else 0), spark, stage, tmp_path)
    assert pairs(committed(spark, stage, out)) == [("a", "0.75")]

    changed = Topology("inverse", processing_guarantee="exactly_once_v2")
    changed.stream(numbers).filter(lambda key, value: value).to(out)
    with pytest.raises(CheckpointError, match=r"another topology: map-values-1 \(no settings\) is now filter-1"):
        start(changed, spark, stage, tmp_path)


def test_state_that_can_not_be_written_stops_the_query_in_a_sentence_and_nothing_is_lost(
    spark: Any, stage: Any, tmp_path: Path
) -> None:
    words, out = stage.topic(), stage.topic()
    topology = Topology("words", processing_guarantee="exactly_once_v2", state_cache_bytes=0)
    topology.stream(words).group_by_key().count().to(out, value=JSON)
    in_the_way = tmp_path / "barnabas" / "state" / "0"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("")
    stage.write(words, ["1", "1", "1"], keys=["a", "b", "a"])
    said = r"state can't be written to .*/state/0/0/1\.delta: File exists; the batch is done again, nothing is lost"
    with pytest.raises(Exception, match=said):
        start(topology, spark, stage, tmp_path)
    in_the_way.unlink()
    stage.write(words, ["1"], keys=["b"])
    start(topology, spark, stage, tmp_path)  # whether the results of the first batch were committed or not
    assert sorted(pairs(committed(spark, stage, out))) == [("a", "2"), ("b", "1"), ("b", "2")]


def test_a_topology_is_started_by_any_thread(spark: Any, stage: Any, tmp_path: Path) -> None:
    lines, out = stage.topic(), stage.topic()
    topology = Topology("threads")
    topology.stream(lines, value=STRING).filter(lambda key, value: value != "b").to(out)
    stage.write(lines, ["a", "b"], keys=["k", "k"])
    with ThreadPoolExecutor(1) as threads:
        threads.submit(start, topology, spark, stage, tmp_path).result()
    assert pairs(committed(spark, stage, out)) == [("k", "a")]


def test_dead_letters_are_written_with_the_batch(spark: Any, stage: Any, tmp_path: Path) -> None:
    numbers, out, dead = (stage.topic() for _ in range(3))
    topology = Topology("letters", processing_guarantee="exactly_once_v2", dead_letter=dead)
    topology.stream(numbers).map_values(lambda value: 1 / value).to(out, value=JSON)
    stage.write(numbers, ["2", "0", "{"], keys=["a", "b", "c"])
    start(topology, spark, stage, tmp_path)
    assert pairs(committed(spark, stage, out)) == [("a", "0.5")]
    letters = committed(spark, stage, dead)
    assert sorted(pairs(letters)) == [("b", "0"), ("c", "{")]
    told = {header.key: bytes(header.value).decode() for header in letters[0].headers}
    assert told["__barnabas.errors.topic"] == numbers


def test_a_global_table_is_whole_before_the_first_record(spark: Any, stage: Any, tmp_path: Path) -> None:
    names, events, out = stage.topic(partitions=2), stage.topic(partitions=3), stage.topic()
    stage.write(names, ["Xaver", "Yvonne"], 0, keys=["x", "y"])
    stage.write(names, ["Zoe"], 1, keys=["z"])
    for number, key in enumerate("xyz"):
        stage.write(events, [f'"{key}"'], number, keys=["e"])

    def built() -> Topology:
        topology = Topology("names")
        table = topology.global_table(names, value=STRING)
        joined = topology.stream(events).join(table, lambda value, name: name, key=lambda key, value: value)
        joined.to(out)
        return topology

    start(built(), spark, stage, tmp_path)
    assert sorted(value or "" for _, value in pairs(committed(spark, stage, out))) == ["Xaver", "Yvonne", "Zoe"]
    stage.write(names, ["Xenia", None], 0, keys=["x", "y"])
    start(built(), spark, stage, tmp_path)
    for key in "xy":
        stage.write(events, [f'"{key}"'], 0, keys=["e"])
    start(built(), spark, stage, tmp_path)
    assert sorted(value or "" for _, value in pairs(committed(spark, stage, out)))[0] == "Xaver"
    assert sorted(value or "" for _, value in pairs(committed(spark, stage, out)))[1] == "Xenia"
    assert len(committed(spark, stage, out)) == 4
    assert open_store(tmp_path, f"global-{names}").get("z") == "Zoe"


def test_what_can_be_told_before_anything_runs_is_told_in_one_sentence(stage: Any, tmp_path: Path) -> None:
    two, three = stage.topic(partitions=2), stage.topic(partitions=3)

    def refused(topology: Topology) -> str:
        with pytest.raises((TopologyError, TopicMissing)) as told:
            topology.start(None, bootstrap_servers=stage.servers, checkpoint=tmp_path)  # type: ignore[arg-type]
        place, _, sentence = str(told.value).partition(": ")
        if isinstance(told.value, TopicMissing):
            return str(told.value)
        assert Path(place.rpartition(":")[0]).name == "test_topologies.py"  # and the line
        return sentence

    topology = Topology("endless")
    topology.stream(two).filter(lambda key, value: True)
    assert refused(topology) == (
        "topology endless has no sink: filter-1 leads nowhere, end it with to(), foreach() or store="
    )
    topology = Topology()
    topology.stream(two).join(topology.table(three), lambda a, b: a).to("out")
    assert refused(topology) == (
        f"join-stream-table-3 needs topics of the same number of partitions, and {two} has 2 and {three} has 3:"
        " repartition() one of them"
    )
    topology = Topology()
    topology.stream("absent").to("out")
    assert refused(topology) == "topic absent can't be read: the topic does not exist"
    topology = Topology()
    names = topology.global_table("absent")
    topology.stream(two).join(names, lambda a, b: a, key=lambda key, value: key).to("out")
    assert refused(topology) == "the global table of topic absent can't be read: the topic does not exist"


def test_the_test_driver_runs_a_topology_by_spark_without_a_cluster(spark: Any) -> None:
    topology = Topology("words")
    words = topology.stream("lines", value=STRING).flat_map_values(str.split)
    words.group_by(lambda _, word: word).count(store="words").to("counts", value=LONG)
    with TopologyTestDriver(topology, spark, partitions=3) as driver:
        driver.pipe_input("lines", "1", "hello streams", timestamp_ms=0)
        driver.pipe_input("lines", "2", "hello spark", timestamp_ms=1)
        assert sorted(driver.read_output("counts")) == [("hello", 2), ("spark", 1), ("streams", 1)]
        driver.pipe_input("lines", "3", "hello", timestamp_ms=2)
        driver.restart()
        driver.pipe_input("lines", "3", "hello", timestamp_ms=2)
        assert driver.read_output("counts") == [("hello", 3), ("hello", 4)]
        assert driver.store("words").get("spark") == 1


def test_times_in_records_are_taken_by_sparks_workers(spark: Any) -> None:
    topology = Topology()
    by_function = topology.stream("in", value=JSON, timestamp=lambda value: value["at"])
    by_column = topology.stream("other", value=json_serde("at long"), timestamp=col("value.at"))
    for stream, output in ((by_function, "out"), (by_column, "other-out")):
        stream.group_by_key().windowed_by(tumbling(10)).count().to_stream().map(
            lambda window, count: (window.key, [window.start_ms, count])
        ).to(output)
    with TopologyTestDriver(topology, spark) as driver:
        for topic in ("in", "other"):
            for time in (3, 12, 14, 1):
                driver.pipe_input(topic, "a", {"at": time}, timestamp_ms=1_000)
        for output in ("out", "other-out"):
            assert driver.read_timed_output(output) == [("a", [0, 1], 3), ("a", [10, 2], 14)]


def test_spark_reports_the_records_that_were_read(spark: Any, stage: Any, tmp_path: Path) -> None:
    """Though none goes through the JVM: results are written where records are read, and behind a shuffle in parcels."""
    read, written = stage.topic(partitions=2), stage.topic(partitions=2)
    stage.write(read, [str(number) for number in range(30)], 0)
    stage.write(read, [str(number) for number in range(20)], 1)
    for name, build in (
        ("filtered", lambda stream: stream.filter(lambda key, value: value % 2 == 0).to(written)),
        ("counted", lambda stream: stream.group_by(lambda key, value: value % 3).count().to(written)),
        ("watched", lambda stream: stream.foreach(lambda key, value: None)),
    ):
        topology = Topology(name)
        build(topology.stream(read))
        (query,) = start(topology, spark, stage, tmp_path / name).queries
        assert sum(progress["numInputRows"] for progress in query.recentProgress) == 50


def test_a_stopped_topology_leaves_no_transaction_open(spark: Any, stage: Any, tmp_path: Path) -> None:
    read, written = stage.topic(partitions=1), stage.topic(partitions=1)
    for first in range(0, 12000, 500):
        stage.write(read, [f"{number} {'x' * 1000}" for number in range(first, first + 500)], 0)
    reached = tmp_path / "reached"

    def waits(value: str) -> str:
        if value.startswith("11900 "):
            reached.touch()
            time.sleep(120)
        return value

    topology = Topology("stopped", processing_guarantee="exactly_once_v2")
    topology.stream(read, value=STRING).map_values(waits).to(written)
    run = topology.start(spark, bootstrap_servers=stage.servers, checkpoint=tmp_path / "checkpoint")
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": stage.servers})) as cluster:
        prefix = f"barnabas.{run.queries[0].id}."
        wait_until(reached.exists, limit_s=LIMIT_S)
        wait_until(lambda: bool(list_transactions(cluster, prefix, states=["Ongoing"])), limit_s=LIMIT_S)
        run.stop()
        wait_until(lambda: not list_transactions(cluster, prefix, states=["Ongoing"]), limit_s=30)
    assert committed(spark, stage, written) == []


def test_a_batch_that_was_written_and_not_noted_is_not_written_again_and_keeps_its_state(
    spark: Any, stage: Any, tmp_path: Path
) -> None:
    """As after a crash between the tasks' commits and Spark's. What a mended function would write is not."""
    read, filtered, counted, grouped = (stage.topic(partitions=2) for _ in range(4))

    def built(mark: str) -> list[Topology]:
        stateless, stateful, shuffled = (
            Topology(name, processing_guarantee="exactly_once_v2") for name in ("stateless", "stateful", "shuffled")
        )
        stateless.stream(read, value=STRING).map_values(lambda value: mark + value).to(filtered)
        stateful.stream(read, value=STRING).group_by_key().count().to(counted)
        shuffled.stream(read, value=STRING).group_by(lambda key, value: value[0]).count().to(grouped)
        return [stateless, stateful, shuffled]

    def run_all(mark: str) -> None:
        for topology in built(mark):
            start(topology, spark, stage, tmp_path / topology.name)

    def written(topic: str) -> list[tuple[str | None, str | None]]:
        return sorted(pairs(committed(spark, stage, topic)))

    for partition, key in ((0, "a"), (1, "b")):
        stage.write(read, ["x", "y"], partition, keys=[key, key])
    run_all("old ")
    for checkpoint in tmp_path.iterdir():
        (noted,) = (checkpoint / "commits").glob("[0-9]*")
        noted.unlink()
    run_all("new ")
    stage.write(read, ["x"], 0, keys=["a"])
    run_all("new ")
    assert written(filtered) == [("a", "new x"), ("a", "old x"), ("a", "old y"), ("b", "old x"), ("b", "old y")]
    assert written(counted) == [("a", "2"), ("a", "3"), ("b", "2")]
    assert written(grouped) == [("x", "2"), ("x", "3"), ("y", "2")]


class Gathered(Processor):
    """Sums by key, shown whenever 10 ms of stream time have passed; and the time of a batch, once."""

    def init(self, context: ProcessorContext) -> None:
        self.context, self.sums = context, context.store("sums")
        context.schedule(10, self.show)
        context.schedule(1, self.tell, PunctuationType.WALL_CLOCK_TIME)

    def process(self, record: Record[Any, Any]) -> None:
        self.sums.put(record.key, self.sums.get(record.key, 0) + record.value)

    def show(self, now_ms: int) -> None:
        for key, value in self.sums.all():
            self.context.forward(Record(key, value, now_ms))

    def tell(self, now_ms: int) -> None:
        assert now_ms == self.context.wall_clock_ms
        self.context.forward(Record("clock", now_ms, 0))


def test_a_processor_goes_on_after_a_stop_with_its_stores_and_times(spark: Any, stage: Any, tmp_path: Path) -> None:
    numbers, out = stage.topic(), stage.topic()

    def built() -> Topology:
        topology = Topology("gathered", processing_guarantee="exactly_once_v2")
        topology.stream(numbers).process(Gathered, stores=["sums"]).to(out, value=JSON)
        return topology

    began = time.time() * 1000
    stage.write(numbers, ["1", "2"], keys=["a", "b"], timestamp_ms=100)
    start(built(), spark, stage, tmp_path)
    assert pairs(committed(spark, stage, out)) == [("a", "1")]  # as in Kafka Streams the first one is at once
    stage.write(numbers, ["3"], keys=["a"], timestamp_ms=109)
    start(built(), spark, stage, tmp_path)
    stage.write(numbers, ["4"], keys=["b"], timestamp_ms=110)
    run = start(built(), spark, stage, tmp_path)
    found = pairs(committed(spark, stage, out))
    assert [row for row in found if row[0] != "clock"] == [("a", "1"), ("a", "4"), ("b", "6")]
    ticks = [int(value or 0) for key, value in found if key == "clock"]
    assert len(ticks) == 2
    assert began < ticks[0] < ticks[1] < time.time() * 1000
    assert dict(run.store("sums").all()) == {"a": 4, "b": 6}


def test_a_processor_behind_a_shuffle_gives_by_spark_what_it_gives_here(spark: Any) -> None:
    def results(session: Any) -> list[Any]:
        topology = Topology()
        rekeyed = topology.stream("in").select_key(lambda key, value: str(value % 5)).repartition()
        rekeyed.process(Gathered, stores=["sums"]).to("out", value=JSON)
        found: list[Any] = []
        with TopologyTestDriver(topology, session, partitions=3) as driver:
            for half in (0, 1):
                for number in range(40):
                    driver.pipe_input("in", f"k{number % 7}", number, timestamp_ms=number + 40 * half)
                found += sorted(driver.read_timed_output("out"))
                driver.restart()
                driver.advance_wall_clock(5)
        return found

    assert results(spark) == results(None)
