"""Files of sinks and of sources: what is in them, when they are closed, and that nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.offsets import committed_offsets
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.connectors.storage import sink as sink_module
from barnabas.pipelines.connect.connectors.storage.sink import FilesSink
from barnabas.pipelines.connect.plane import turns as turns_module
from barnabas.pipelines.connect.plane.orders import Outcome, Turn
from tests.support.waiting import wait_until

Bench = Any
JSON = "org.apache.kafka.connect.json.JsonConverter"
SCHEMA = {
    "type": "struct",
    "optional": False,
    "fields": [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
        {"type": "int64", "optional": True, "name": "org.apache.kafka.connect.data.Timestamp", "field": "at"},
        {"type": "array", "items": {"type": "int32", "optional": False}, "optional": True, "field": "list"},
    ],
}
HOUR = 3_600_000


def send(bench: Bench, topic: str, numbers: Sequence[int], *, timestamp: int | None = None) -> None:
    """Records 0, 1, ... whose id is their offset."""
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for number in numbers:
            payload = {"id": number, "name": "odd" if number % 2 else "even", "at": number * HOUR, "list": [number]}
            value = json.dumps({"schema": SCHEMA, "payload": payload}).encode()
            producer.send(topic, value, partition=0, timestamp=timestamp)
        producer.flush()


def files_sink(path: Path, topic: str, kind: str, size: int, **rest: str) -> dict[str, str]:
    return {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "s3.bucket.name": "bucket",
        "store.url": f"file:{path}",
        "format.class": f"io.confluent.connect.s3.format.{kind.lower()}.{kind}Format",
        "flush.size": str(size),
        "topics": topic,
        "value.converter": JSON,
    } | {name.replace("_", "."): value for name, value in rest.items()}


def paths(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "/." not in str(path))


def ids(root: Path) -> list[int]:
    """Of all JSON files, in the order of offsets."""
    return [json.loads(line)["id"] for path in sorted(root.rglob("*+*.json"), key=lambda each: each.name)
            if "/." not in str(path) for line in path.read_text().splitlines()]  # fmt: skip


@pytest.mark.parametrize("kind", ["Parquet", "Avro", "Json"])
def test_files_have_flush_size_records_and_the_rest_waits_uncommitted(bench: Bench, tmp_path: Path, kind: str) -> None:
    topic = f"files-{kind}"
    send(bench, topic, range(7))
    bench.start(topic, files_sink(tmp_path, topic, kind, 3))
    assert bench.turns(topic, rounds=1) == 7
    extension = {"Parquet": "snappy.parquet", "Avro": "avro", "Json": "json"}[kind]
    folder = tmp_path / "bucket" / "topics" / topic / "partition=0"
    names = [f"{topic}+0+000000000{at}.{extension}" for at in (0, 3)]
    assert paths(folder) == names
    first = folder / names[0]
    if kind == "Parquet":
        rows = pq.read_table(first).to_pylist()
        assert pq.read_schema(first).field("id").nullable is False
    elif kind == "Avro":
        with open(first, "rb") as file:
            rows = list(fastavro.reader(file))
    else:
        rows = [json.loads(line) for line in first.read_text().splitlines()]
    assert [row["id"] for row in rows] == [0, 1, 2]
    assert [row["name"] for row in rows] == ["even", "odd", "even"]
    assert [row["list"] for row in rows] == [[0], [1], [2]]
    at = rows[2]["at"]
    assert (at if kind == "Json" else int(at.timestamp() * 1000)) == 2 * HOUR
    assert bench.turns(topic) == 0, "nothing to do before two more records are there"
    send(bench, topic, [7])
    assert bench.turns(topic) == 0
    send(bench, topic, [8])
    assert bench.turns(topic) == 3, "the held record came again, with the new ones"
    assert len(paths(folder)) == 3


def test_a_crash_before_the_commit_gives_no_record_twice(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(bench, "crash", range(10))
    settings = files_sink(tmp_path, "crash", "Json", 4, rotate_schedule_interval_ms="1")
    bench.start("crash", settings)

    def dies(*_: Any) -> None:
        raise SystemError("killed before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(turns_module, "commit_positions", dies)
        bench.turns("crash", rounds=1)
    assert bench.states("crash")[-1][0] == "FAILED"
    assert ids(tmp_path) == list(range(10)), "the files are there, the commit is not"
    send(bench, "crash", range(10, 12))
    other = type(bench)(bench.servers)
    other.start("crash", settings)
    assert other.turns("crash") == 2
    assert ids(tmp_path) == list(range(12))
    other.planner.close()


def test_a_crash_between_two_files_of_a_turn_gives_no_record_twice(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock closes files here, so those of the second attempt have other bounds than those of the first."""
    send(bench, "torn", range(6))
    settings = files_sink(tmp_path, "torn", "Json", 4, rotate_schedule_interval_ms="1")
    bench.start("torn", settings)
    written = sink_module.FilesSink._publish

    def torn(self: Any, tp: Any, writer: Any, at: int) -> None:
        whole, store = writer.closed, self._store.write
        self._store.write = lambda path, data: None if path == whole[0].path else store(path, data)
        written(self, tp, writer, at)
        raise SystemError("killed in the middle")

    with monkeypatch.context() as patched:
        patched.setattr(sink_module.FilesSink, "_publish", torn)
        bench.turns("torn", rounds=1)
    assert ids(tmp_path) == [4, 5]
    other = type(bench)(bench.servers)
    other.start("torn", settings | {"flush.size": "5"})
    other.turns("torn")
    assert ids(tmp_path) == list(range(6))
    other.planner.close()


def test_partitioners_by_field_and_by_time(bench: Bench, tmp_path: Path) -> None:
    send(bench, "placed", range(4))
    field = {"partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner"}
    bench.start("by-field", files_sink(tmp_path / "field", "placed", "Json", 4, partition_field_name="name") | field)
    bench.turns("by-field")
    assert paths(tmp_path / "field/bucket/topics/placed") == [
        "name=even/placed+0+0000000000.json",
        "name=odd/placed+0+0000000001.json",
    ]
    by_time = {
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "partition.duration.ms": str(2 * HOUR),
        "path.format": "'year'=YYYY/'day'=dd/'hour'=HH",
        "timezone": "Europe/Berlin",
        "timestamp.extractor": "RecordField",
        "timestamp.field": "at",
        "locale": "en-US",
    }
    bench.start("by-time", files_sink(tmp_path / "time", "placed", "Json", 4) | by_time)
    bench.turns("by-time")
    assert paths(tmp_path / "time/bucket/topics/placed") == [  # 01:00, 02:00, 03:00 and 04:00 in Berlin
        "year=1970/day=01/hour=00/placed+0+0000000000.json",
        "year=1970/day=01/hour=02/placed+0+0000000001.json",
        "year=1970/day=01/hour=04/placed+0+0000000003.json",
    ]


def test_time_closes_files(bench: Bench, tmp_path: Path) -> None:
    send(bench, "rotated", [0], timestamp=1_000_000)
    send(bench, "rotated", [1], timestamp=1_000_500)
    send(bench, "rotated", [2], timestamp=1_001_000)
    bench.start("rotated", files_sink(tmp_path, "rotated", "Json", 100, rotate_interval_ms="1000"))
    bench.turns("rotated")
    names = [Path(path).name for path in paths(tmp_path)]
    assert names == ["rotated+0+0000000000.json", "rotated+0+0000000002.json"], "the last one by the clock"


def test_a_tombstone_fails_the_task_or_is_left_out(bench: Bench, tmp_path: Path) -> None:
    send(bench, "null", [0])
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        producer.send("null", None, b"k", partition=0)
        producer.flush()
    bench.start("null-fails", files_sink(tmp_path, "null", "Json", 1))
    bench.turns("null-fails")
    state, trace = bench.states("null-fails")[-1]
    assert state == "FAILED"
    assert "behavior.on.null.values" in trace
    bench.start("null-ignored", files_sink(tmp_path, "null", "Json", 1) | {"behavior.on.null.values": "ignore"})
    assert bench.turns("null-ignored") == 2
    assert ids(tmp_path) == [0]


def test_a_topic_goes_to_files_and_back(bench: Bench, tmp_path: Path) -> None:
    send(bench, "round", range(5_000))
    bench.start("to-files", files_sink(tmp_path, "round", "Parquet", 1_500, rotate_schedule_interval_ms="1"))
    assert bench.turns("to-files") == 5_000
    back = {
        "connector.class": "io.confluent.connect.s3.source.S3SourceConnector",
        "s3.bucket.name": "bucket",
        "store.url": f"file:{tmp_path}",
        "topic.prefix": "back-",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    bench.start("from-files", back, offsets_topic="back-offsets")
    assert bench.turns("from-files") == 5_000
    assert [json.loads(each)["id"] for each in bench.values("back-round")] == list(range(5_000))
    other = type(bench)(bench.servers)
    other.start("from-files", back, offsets_topic="back-offsets")
    assert other.turns("from-files") == 0
    send(bench, "round", [5_000])
    bench.turns("to-files")
    wait_until(lambda: other.turns("from-files") == 1, "the new file is read")
    other.planner.close()


def spool(path: Path, topic: str, kind: str, **rest: str) -> dict[str, str]:
    for name in ("in", "done", "bad"):
        (path / name).mkdir(exist_ok=True)
    return {
        "connector.class": f"com.github.jcustenborder.kafka.connect.spooldir.SpoolDir{kind}SourceConnector",
        "input.path": str(path / "in"),
        "finished.path": str(path / "done"),
        "error.path": str(path / "bad"),
        "topic": topic,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "empty.poll.wait.ms": "1",
    } | {name.replace("_", "."): value for name, value in rest.items()}


def documents(bench: Bench, topic: str) -> list[Any]:
    return [json.loads(each) for each in bench.values(topic)]


def test_files_of_a_spool_become_records_and_go_to_the_finished_ones(bench: Bench, tmp_path: Path) -> None:
    bench.start("spool", spool(tmp_path, "spooled", ""), offsets_topic="spool-offsets")
    (tmp_path / "in/a.csv").write_text('id,name\n1,Anna\n2,"Bert\nand ""Co"""\n3,\n')
    (tmp_path / "in/b.json").write_text('{"id": 4}\n\n{"id": 5}\n')
    (tmp_path / "in/c.txt").write_text("six\nseven")
    assert bench.turns("spool") == 7
    assert documents(bench, "spooled") == [
        {"id": "1", "name": "Anna"},
        {"id": "2", "name": 'Bert\nand "Co"'},
        {"id": "3", "name": None},
        {"id": 4},
        {"id": 5},
        "six",
        "seven",
    ]
    assert (paths(tmp_path / "in"), paths(tmp_path / "done")) == ([], ["a.csv", "b.json", "c.txt"])
    (tmp_path / "in/b.json").write_text('{"id": 6}\n')
    assert bench.turns("spool") == 1, "another file of the same name"


def test_a_spooled_file_is_read_on_where_a_turn_ended(bench: Bench, tmp_path: Path) -> None:
    settings = spool(tmp_path, "halves", "Csv", batch_size="10", cleanup_policy="NONE")
    (tmp_path / "in/a.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(35)))
    bench.start("halves", settings, offsets_topic="halves-offsets")
    (turn,) = bench.planner.due(["halves"])
    outcome = turns_module.run_turn(replace(turn, limit_records=20))
    assert outcome.records == 20
    other = type(bench)(bench.servers)
    other.start("halves", settings, offsets_topic="halves-offsets")
    assert other.turns("halves") == 15
    assert [int(each["id"]) for each in documents(bench, "halves")] == list(range(35))
    assert other.turns("halves") == 0
    other.planner.close()


def test_a_file_that_cannot_be_read_is_set_aside_or_fails_the_task(bench: Bench, tmp_path: Path) -> None:
    settings = spool(tmp_path, "bad", "Csv", halt_on_error="false")
    (tmp_path / "in/a.csv").write_text("id,name\n1,Anna\n2\n3,Carl\n")
    (tmp_path / "in/b.csv").write_text("id,name\n4,Dora\n")
    bench.start("bad", settings)
    assert bench.turns("bad") == 2
    assert (paths(tmp_path / "in"), paths(tmp_path / "bad"), paths(tmp_path / "done")) == ([], ["a.csv"], ["b.csv"])
    assert [each["id"] for each in documents(bench, "bad")] == ["1", "4"]
    (tmp_path / "in/c.csv").write_text("id,name\n5\n")
    bench.start("halting", settings | {"halt.on.error": "true"})
    bench.turns("halting")
    state, trace = bench.states("halting")[-1]
    assert state == "FAILED"
    assert "c.csv cannot be read: a row has 1 values for 2 fields" in trace


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"format.class": "OrcFormat"}, "Invalid value OrcFormat for configuration format.class"),
        ({"partitioner.class": "FieldPartitioner"}, "partition.field.name"),
        ({"s3.bucket.name": ""}, "configuration directory"),
        ({"flush.size": "0"}, "flush.size: Value must be at least 1"),
        ({"schema.compatibility": "FULL"}, "schema.compatibility"),
    ],
)
def test_wrong_settings_are_told(wrong: dict[str, str], text: str, tmp_path: Path) -> None:
    from barnabas.pipelines.connect.plugins import need
    from barnabas.pipelines.connect.worker.validation import validate

    settings = files_sink(tmp_path, "t", "Json", 1) | {"name": "n", "key.converter": JSON} | wrong
    plugin = need(settings["connector.class"], "sink", setting="connector.class")
    found = validate(plugin, settings, {})
    assert any(text in error for each in found["configs"] for error in each["value"]["errors"])


def test_columns_and_records_fill_one_file_and_a_bad_record_between_them_is_left_out(
    bench: Bench, tmp_path: Path
) -> None:
    rest = {"value.converter.schemas.enable": "false", "errors.tolerance": "all"}
    settings = ClientSettings.from_properties({}, bootstrap_servers=bench.servers)
    with Producer(settings) as producer:
        for number in range(301):
            value = b"{" if number == 150 else json.dumps({"id": number, f"odd{number % 2}": number / 7}).encode()
            producer.send("mixed", value, partition=0)
            if number % 50 == 0:
                producer.flush()  # a batch of its own
    consumer = {"max.partition.fetch.bytes": "1000"}
    bench.start("mixed", files_sink(tmp_path, "mixed", "Parquet", 300) | rest, consumer=consumer)
    assert bench.turns("mixed", rounds=1) == 301
    (path,) = (tmp_path / "bucket" / "topics" / "mixed" / "partition=0").iterdir()
    table = pq.read_table(path)
    assert table.column("id").to_pylist() == [number for number in range(301) if number != 150]
    assert table.column("odd1").to_pylist()[:3] == [None, 1 / 7, None]


def group_offset(bench: Bench, group: str) -> int:
    with Cluster(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as cluster:
        (found,) = committed_offsets(cluster, group).values()
    return found.offset


def test_a_worker_that_was_thought_dead_neither_replaces_files_nor_moves_the_group_back(
    bench: Bench, tmp_path: Path
) -> None:
    """It has read fewer records than the next owner, and its file would have the same name as theirs."""
    settings = files_sink(tmp_path, "zombie", "Json", 100, rotate_schedule_interval_ms="1")
    send(bench, "zombie", range(4))
    bench.start("zombie", settings)
    (late,) = bench.planner.due(["zombie"])
    other = type(bench)(bench.servers)

    class Late(FilesSink):
        def announce(self, positions: Any) -> Any:
            """All is read and nothing is told yet; meanwhile the group gives the connector to another worker."""
            send(bench, "zombie", range(4, 7))
            other.start("zombie", settings)
            assert other.turns("zombie") == 7
            return super().announce(positions)

    outcome = run_turn_with(Late, late)
    assert outcome.failed
    assert "PRODUCER_FENCED" in outcome.trace or "INVALID_PRODUCER_EPOCH" in outcome.trace
    assert ids(tmp_path) == list(range(7))
    assert group_offset(bench, "connect-zombie") == 7
    send(bench, "zombie", range(7, 9))
    assert other.turns("zombie") == 2
    assert ids(tmp_path) == list(range(9))
    other.planner.close()


def test_a_turn_that_was_announced_is_done_again_as_it_was(bench: Bench, tmp_path: Path) -> None:
    """The worker that was thought dead is about to write: who goes on writes the same files, so it does no harm."""
    settings = files_sink(tmp_path, "announced", "Json", 3, rotate_schedule_interval_ms="1")
    send(bench, "announced", range(5))
    bench.start("announced", settings)
    (late,) = bench.planner.due(["announced"])
    other = type(bench)(bench.servers)

    class Late(FilesSink):
        def flush(self, positions: Any) -> Any:
            send(bench, "announced", range(5, 12))
            other.start("announced", settings)
            assert other.turns("announced", rounds=1) == 12, "all are read, the latest in vain"
            assert ids(tmp_path) == list(range(5)), "up to what was announced"
            return super().flush(positions)

    assert run_turn_with(Late, late).failed, "its commit is refused"
    assert group_offset(bench, "connect-announced") == 5
    assert other.turns("announced") == 7
    assert ids(tmp_path) == list(range(12))
    names = [Path(path).name for path in paths(tmp_path)]
    assert names == [f"announced+0+{at:010}.json" for at in (0, 3, 5, 8, 11)]
    other.planner.close()


def test_a_crash_after_the_announcement_is_made_good(bench: Bench, tmp_path: Path) -> None:
    """Columns go the same way: what is behind the announced offset is cut off."""
    rest = {"value.converter.schemas.enable": "false", "rotate.schedule.interval.ms": "1"}
    settings = files_sink(tmp_path, "cut", "Parquet", 4) | rest
    plain(bench, "cut", range(6))
    bench.start("cut", settings)
    (late,) = bench.planner.due(["cut"])

    class Dies(FilesSink):
        def flush(self, positions: Any) -> Any:
            raise SystemError("killed after the announcement")

    assert run_turn_with(Dies, late).failed
    plain(bench, "cut", range(6, 9))
    other = type(bench)(bench.servers)
    other.start("cut", settings)
    other.turns("cut", rounds=1)
    assert group_offset(bench, "connect-cut") == 6
    other.turns("cut")
    found = {path.name: pq.read_table(path).column("id").to_pylist() for path in tmp_path.rglob("*.parquet")}
    assert found == {
        "cut+0+0000000000.snappy.parquet": [0, 1, 2, 3],
        "cut+0+0000000004.snappy.parquet": [4, 5],
        "cut+0+0000000006.snappy.parquet": [6, 7, 8],
    }
    other.planner.close()


def test_files_that_somebody_took_away_are_not_missed(bench: Bench, tmp_path: Path) -> None:
    settings = files_sink(tmp_path, "taken", "Json", 2)
    send(bench, "taken", range(4))
    bench.start("taken", settings)
    assert bench.turns("taken") == 4
    first = next(path for path in tmp_path.rglob("taken+0+0000000000.json"))
    first.unlink()
    send(bench, "taken", range(4, 6))
    other = type(bench)(bench.servers)
    other.start("taken", settings)
    assert other.turns("taken") == 2
    assert ids(tmp_path) == [2, 3, 4, 5]
    other.planner.close()


def plain(bench: Bench, topic: str, numbers: range) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for number in numbers:
            producer.send(topic, json.dumps({"id": number}).encode(), partition=0)
        producer.flush()


def run_turn_with(sink: type[FilesSink], turn: Turn) -> Outcome:
    """This turn has another class; those that it starts meanwhile do not."""
    with pytest.MonkeyPatch.context() as patched:
        load = turns_module.load
        once = iter([sink])
        patched.setattr(turns_module, "load", lambda place: next(once, None) or load(place))
        return turns_module.run_turn(turn)
