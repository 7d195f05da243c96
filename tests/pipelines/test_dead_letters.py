from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.spark import parse_json

pytestmark = pytest.mark.timeout(600)
SCHEMA = "id string, celsius double"
GOOD = ['{"id":"s1","celsius":21.5}', '{"id":"s2"}', None]
BAD = ["no json", '{"id":"s3","celsius":"hot"}', ""]


def read(spark: Any, stage: Any, topic: str, **given: str) -> Any:
    return spark.read.format("barnabas").options(**stage.options({"subscribe": topic} | given)).load()


def test_what_cannot_be_read_goes_to_a_topic_of_its_own_with_the_reason(spark: Any, stage: Any, tmp_path: Path) -> None:
    topic, dead = stage.topic(), stage.topic()
    stage.write(topic, [*GOOD, *BAD], keys=["k"] * 6, headers=(("unit", b"C"),))
    options = stage.options({"subscribe": topic, "startingOffsets": "earliest", "includeHeaders": "true"})
    frame = spark.readStream.format("barnabas").options(**options).load()
    readings = parse_json(frame, SCHEMA, dead_letter={"kafka.bootstrap.servers": stage.servers, "topic": dead})
    query = (
        readings.select("offset", "data.*")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(0, "s1", 21.5), (1, "s2", None), (2, None, None)]

    letters = read(spark, stage, dead, includeHeaders="true").orderBy("offset").collect()
    assert [bytes(letter.value).decode() for letter in letters] == BAD
    assert {bytes(letter.key) for letter in letters} == {b"k"}
    told = [{header.key: bytes(header.value).decode() for header in letter.headers} for letter in letters]
    assert told[0] == {
        "unit": "C",
        "__barnabas.errors.message": f"the record at offset 3 of {topic}-0 can't be read: "
        "it is no JSON: Expecting value at character 0",
        "__barnabas.errors.topic": topic,
        "__barnabas.errors.partition": "0",
        "__barnabas.errors.offset": "3",
    }
    assert told[1]["__barnabas.errors.message"].endswith("it does not fit struct<id:string,celsius:double>")
    assert told[2]["__barnabas.errors.offset"] == "5"


def test_without_such_a_topic_the_query_stops_with_the_same_words(spark: Any, stage: Any) -> None:
    topic = stage.topic()
    stage.write(topic, [*GOOD, "no json"])
    with pytest.raises(Exception, match=f"the record at offset 3 of {topic}-0 can't be read: it is no JSON"):
        parse_json(read(spark, stage, topic), SCHEMA).collect()
    with pytest.raises(OptionError, match="offset is missing"):
        parse_json(read(spark, stage, topic).drop("offset"), SCHEMA)
    with pytest.raises(OptionError, match="the topic of dead letters is missing"):
        parse_json(read(spark, stage, topic), SCHEMA, dead_letter={"kafka.bootstrap.servers": stage.servers})
