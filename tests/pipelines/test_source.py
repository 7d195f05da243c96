"""The source in a real Spark: found by its name, batch and stream, checkpoints, progress, and what users are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.spark.startup.archive import files_jar_of, made_archive

WAIT_S = 240.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def load(spark: Any, stage: Any) -> Callable[..., Any]:
    def batch(**given: object) -> Any:
        return spark.read.format("barnabas").options(**stage.options(given)).load()

    return batch


@pytest.fixture
def follow(spark: Any, stage: Any) -> Callable[..., Any]:
    def stream(**given: object) -> Any:
        return spark.readStream.format("barnabas").options(**stage.options(given)).load()

    return stream


def texts(rows: list[Any]) -> list[str]:
    return sorted(bytes(row["value"]).decode() for row in rows)


def run(frame: Any, directory: Path) -> Any:
    """One run over what is there, into Parquet."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(directory / "rows"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S)
    return query


def test_spark_finds_the_format_by_itself_and_rows_are_the_connectors(load: Any, stage: Any) -> None:
    topic = stage.topic(2)
    stage.write(topic, ["a", None], 0, keys=[None, "k"], headers=(("unit", b"C"),))
    stage.write(topic, ["b"], 1)
    rows = load(subscribe=topic, includeHeaders="true")
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    first, second, third = rows.orderBy("partition", "offset").collect()
    assert (first.key, bytes(first.value), first.topic, first.partition, first.offset) == (None, b"a", topic, 0, 0)
    assert first.timestamp.timestamp() == stage.now_ms / 1000
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("unit", b"C")]
    assert (bytes(second.key), second.value) == (b"k", None)
    assert (third.partition, third.headers) == (1, None)
    assert load(subscribe=topic).where("value is not null").selectExpr("string(value) v").count() == 2


def test_a_schema_or_columns_leave_out_what_is_not_asked_for(load: Any, spark: Any, stage: Any) -> None:
    topic = stage.topic()
    stage.write(topic, ["a"])
    assert load(subscribe=topic, columns="value").columns == ["value"]
    assert [bytes(row.value) for row in load(subscribe=topic, columns="value").collect()] == [b"a"]
    reader = spark.read.format("barnabas").options(**stage.options({"subscribe": topic}))
    assert reader.schema("offset bigint, value binary").load().collect()[0].offset == 0
    with pytest.raises(Exception, match="column offset is of type bigint, not string"):
        reader.schema("offset string").load().collect()


def test_many_records_arrive_once_and_a_query_that_stops_early_harms_nobody(load: Any, stage: Any) -> None:
    topic = stage.topic(2)
    for number in range(20):
        stage.write(topic, [f"{number} {index} {'x' * 80}" for index in range(1000)], number % 2)
    rows = load(subscribe=topic, minPartitions=6, **{"kafka.max.partition.fetch.bytes": "100000"})
    assert rows.rdd.getNumPartitions() == 6
    assert load(subscribe=topic).limit(3).count() == 3
    assert rows.selectExpr("count(distinct partition, offset)", "count(*)").collect()[0][:] == (20_000, 20_000)


def test_a_stream_goes_on_after_a_restart(follow: Any, spark: Any, stage: Any, tmp_path: Path) -> None:
    topic = stage.topic()
    run(follow(subscribe=topic), tmp_path)  # begins at the end
    stage.write(topic, list("abc"))
    for name in ("0", ".0.crc"):  # as if it had died when its first offsets were logged and nothing was read
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run(follow(subscribe=topic), tmp_path)
    stage.write(topic, ["d"])
    run(follow(subscribe=topic), tmp_path)
    assert texts(spark.read.parquet(str(tmp_path / "rows")).collect()) == list("abcd")


def test_progress_shows_offsets_and_lag(follow: Any, stage: Any, tmp_path: Path) -> None:
    topic, group = stage.topic(2), "lag-in-progress"
    stage.write(topic, list("abcdef"), 0)
    stage.write(topic, list("xy"), 1)
    frame = follow(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=4, **{"kafka.group.id": group})
    query = run(frame, tmp_path)
    first, second = [progress for progress in query.recentProgress if progress["numInputRows"]]
    source = first["sources"][0]
    assert first["numInputRows"] == 4
    ended = json.loads(source["endOffset"]) if isinstance(source["endOffset"], str) else source["endOffset"]
    latest = json.loads(source["latestOffset"]) if isinstance(source["latestOffset"], str) else source["latestOffset"]
    assert ended[topic] == {"0": 3, "1": 1}
    assert latest[topic] == {"0": 6, "1": 2}
    assert latest["$lag"] == {topic: {"0": 3, "1": 1}}
    assert latest["$lagTotal"] == 4

    from barnabas.spark import lag

    assert (lag(first).total, lag(second).total) == (4, 0)
    assert lag(first).partitions == {(topic, 0): 3, (topic, 1): 1}
    committed = stage.committed(group)
    assert committed == {(topic, 0): 6, (topic, 1): 2}


def test_offsets_of_a_group_are_committed_once_the_batch_is_done_though_nothing_follows(
    follow: Any, stage: Any, tmp_path: Path
) -> None:
    topic, group = stage.topic(2), "lag-while-idle"
    stage.write(topic, list("abc"), 0)
    source = follow(subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": group})
    seen = tmp_path / "seen"
    of_batches = type(stage)(stage.servers)  # a client is for one thread

    def slowly(rows: Any, batch: int) -> None:
        """What the group has while the batch is being worked on."""
        (tmp_path / f"before-{batch}").write_text(str(sorted(of_batches.committed(group).values())))
        seen.write_text(str(batch))

    query = source.writeStream.foreachBatch(slowly).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        stage.wait(lambda: stage.committed(group) == {(topic, 0): 3, (topic, 1): 0})
        stage.write(topic, list("xy"), 1)
        stage.wait(lambda: stage.committed(group) == {(topic, 0): 3, (topic, 1): 2})
        assert query.exception() is None
    finally:
        query.stop()
        of_batches.cluster.close()
    assert seen.read_text() == "1"
    assert (tmp_path / "before-0").read_text() == "[]"
    assert (tmp_path / "before-1").read_text() == "[0, 3]"


def test_a_running_query_sees_records_and_partitions_that_come(follow: Any, spark: Any, stage: Any) -> None:
    topic = stage.topic()
    query = (
        follow(subscribe=topic, startingOffsets="earliest")
        .writeStream.format("memory")
        .queryName("rows_that_come")
        .start()
    )
    try:
        stage.write(topic, ["a"])
        stage.wait(lambda: spark.table("rows_that_come").count() == 1)
        stage.add_partitions(topic, 2)
        stage.write(topic, ["b"], 1)
        stage.wait(lambda: spark.table("rows_that_come").count() == 2)
    finally:
        query.stop()
    assert texts(spark.table("rows_that_come").collect()) == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "one of assign, subscribe, subscribePattern, and none is given"),
        ({"subscribe": "missing"}, "topic missing does not exist on"),
        ({"subscribe": "t", "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not an option here"),
        ({"subscribe": "t", "startingOffsets": "latest"}, "startingOffsets can't be latest"),
        ({"subscribe": "t", "kafka.bootstrap.servers": "127.0.0.1:1"}, "127.0.0.1:1 cannot be reached"),
    ],
)
def test_users_are_told_in_a_sentence(load: Any, given: dict[str, str], sentence: str) -> None:
    with pytest.raises(Exception, match=r".*") as told:
        load(**given).count()
    assert sentence in str(told.value)


def test_lost_records_end_the_query_with_topic_partition_and_offsets(follow: Any, stage: Any, tmp_path: Path) -> None:
    topic = stage.topic()
    stage.write(topic, list("abc"))
    run(follow(subscribe=topic, startingOffsets="earliest"), tmp_path)
    stage.write(topic, list("def"))
    stage.delete_records(topic, 5)
    with pytest.raises(Exception, match=f"offsets 3 to 4 of {topic}-0 are gone: it now begins at offset 5"):
        run(follow(subscribe=topic), tmp_path)
    run(follow(subscribe=topic, failOnDataLoss="false"), tmp_path)


def test_a_checkpoint_of_another_query_is_told(follow: Any, spark: Any, stage: Any, tmp_path: Path) -> None:
    run(spark.readStream.format("rate").load(), tmp_path)
    with pytest.raises(Exception, match="is no offset of topics: it belongs to another query"):
        run(follow(subscribe=stage.topic()), tmp_path)


def test_files_that_spark_makes_get_their_mode_without_a_process(spark: Any, tmp_path: Path) -> None:
    made = made_archive()
    if made is None or not files_jar_of(made).exists():
        pytest.skip("there is no start-up archive, and nothing beside it")
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    local = hadoop.FileSystem.getLocal(spark.sparkContext._jsc.hadoopConfiguration())
    assert local.getClass().getName() == "barnabas.spark.LocalFiles"
    local.create(hadoop.Path(str(tmp_path / "file")), True).close()
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
    for mode in ("640", "1777"):
        local.setPermission(hadoop.Path(str(tmp_path / "file")), hadoop.permission.FsPermission(mode))
        assert (tmp_path / "file").stat().st_mode & 0o7777 == int(mode, 8)
