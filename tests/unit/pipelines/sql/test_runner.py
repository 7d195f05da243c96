"""Queries from statements to records, in the test runner: no broker, no Spark. The courses' SQL is among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.pipelines.sql.engine import Engine
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.runner import MOCK_REGISTRY, Bench, CaseRecord

PLANT = """
CREATE STREAM myplant_stream(sensor_id varchar, datetime bigint, value STRUCT<STRING VARCHAR, LONG BIGINT>)
WITH (KAFKA_TOPIC = 'myPlant', value_format='AVRO');
"""
MOTORS = (
    PLANT
    + """
CREATE STREAM myplant_motors_stream
AS select sensor_id, datetime, value->string as value from myplant_stream where sensor_id = 'myMotor';
"""
)
KEYED = "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"


@pytest.fixture
def bench(sql_bench: Bench) -> Bench:
    return sql_bench


def piped(bench: Bench, topic: str, *records: tuple[Any, Any, int]) -> list[tuple[Any, Any, int]]:
    """Records of (key, value, time) in, and what came out."""
    for key, value, time in records:
        bench.pipe(CaseRecord(topic, key, value, time))
    return [(one.key, one.value, one.timestamp_ms) for one in bench.output()]


def test_every_change_of_an_aggregate_gives_a_row(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM my_stream (key STRING KEY, value INT) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE my_table AS SELECT key, LATEST_BY_OFFSET(value) AS value, AVG(value) AS average "
        "FROM my_stream GROUP BY key;"
    )
    given = [("A", 2), ("A", 2), ("B", 2), ("B", 8), ("A", 5), ("A", 11), ("A", 10), ("B", 5)]
    found = piped(bench, "t", *((key, {"value": value}, at) for at, (key, value) in enumerate(given)))
    assert [(key, value["VALUE"]) for key, value, _ in found] == given
    assert [value["AVERAGE"] for _, value, _ in found] == [2.0, 2.0, 2.0, 5.0, 3.0, 5.0, 6.0, 5.0]
    assert [time for _, _, time in found] == list(range(8))


def test_every_change_of_a_windowed_aggregate_gives_a_row_of_its_minute(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM my_stream (key STRING KEY, value INT) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE my_table AS SELECT key, LATEST_BY_OFFSET(value) AS value, AVG(value) AS average "
        "FROM my_stream WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY key;"
    )
    minutes = [[("A", 2), ("A", 2), ("B", 2)], [("B", 8), ("A", 5), ("A", 11)], [("A", 10), ("B", 5)]]
    given = [
        (key, value, minute * 60_000 + at)
        for minute, pairs in enumerate(minutes)
        for at, (key, value) in enumerate(pairs)
    ]
    for key, value, time in given:
        bench.pipe(CaseRecord("t", key, {"value": value}, time))
    found = bench.output()
    assert [(one.key, one.value["VALUE"], one.timestamp_ms) for one in found] == given
    assert [one.value["AVERAGE"] for one in found] == [2.0, 2.0, 2.0, 8.0, 5.0, 8.0, 10.0, 5.0]
    assert [one.window for one in found] == [(at // 60_000 * 60_000, (at // 60_000 + 1) * 60_000) for _, _, at in given]


def test_a_union_of_avro_is_a_struct_of_its_types(bench: Bench) -> None:
    bench.execute(PLANT)
    union = {
        "type": "record",
        "name": "SensorMeasurement",
        "fields": [
            {"name": "sensor_id", "type": "string"},
            {"name": "datetime", "type": "long"},
            {"name": "value", "type": ["string", "long"]},
        ],
    }
    from barnabas.client.serdes import Schema, Serializer, open_registry

    serializer = Serializer(open_registry(MOCK_REGISTRY), Schema(json.dumps(union)))
    bench.execute(
        "CREATE STREAM sensors AS SELECT sensor_id, datetime, value->long AS value FROM myplant_stream "
        "WHERE sensor_id = 'mySensor';"
        "CREATE STREAM motors AS SELECT sensor_id, value->string AS value FROM myplant_stream "
        "WHERE sensor_id = 'myMotor';"
        "CREATE STREAM sensor_top_20 AS SELECT * FROM sensors WHERE value > 800000;"
        "CREATE STREAM motor_errors WITH (value_format='JSON') AS SELECT * FROM motors WHERE value = 'error';"
    )
    for number, (sensor, value) in enumerate([("mySensor", 17), ("myMotor", "error"), ("mySensor", 900000)]):
        row = {"sensor_id": sensor, "datetime": number, "value": value}
        bench.pipe_bytes("myPlant", None, serializer.encode("myPlant", row), number)
    found = {topic: [one.value for one in records] for topic, records in by_topic(bench).items()}
    assert found["SENSORS"] == [
        {"SENSOR_ID": "mySensor", "DATETIME": 0, "VALUE": 17},
        {"SENSOR_ID": "mySensor", "DATETIME": 2, "VALUE": 900000},
    ]
    assert found["SENSOR_TOP_20"] == [{"SENSOR_ID": "mySensor", "DATETIME": 2, "VALUE": 900000}]
    assert found["MOTOR_ERRORS"] == [{"SENSOR_ID": "myMotor", "VALUE": "error"}]


def by_topic(bench: Bench) -> dict[str, list[CaseRecord]]:
    found: dict[str, list[CaseRecord]] = {}
    for one in bench.output():
        found.setdefault(one.topic, []).append(one)
    return found


def test_motors_that_stop_within_two_minutes_after_their_start(bench: Bench) -> None:
    bench.execute(
        MOTORS + "CREATE STREAM starting AS select sensor_id, datetime, value from myplant_motors_stream"
        " where value='starting';"
        "CREATE STREAM stopping AS select sensor_id, datetime, value from myplant_motors_stream where value='stopping';"
        "CREATE STREAM short WITH (value_format='JSON') AS SELECT a.sensor_id AS id, a.datetime AS up,"
        " b.datetime AS down"
        " FROM starting a INNER JOIN stopping b WITHIN 2 MINUTES ON a.sensor_id = b.sensor_id;"
    )
    for value, at in (("starting", 0), ("stopping", 60_000), ("stopping", 200_000)):
        bench.execute(
            "INSERT INTO myplant_motors_stream (ROWTIME, sensor_id, datetime, value) "
            f"VALUES ({at}, 'myMotor', {at}, '{value}');"
        )
    assert [(one.key, one.value) for one in by_topic(bench)["SHORT"]] == [("myMotor", {"UP": 0, "DOWN": 60_000})]


def test_metadata_joined_from_a_table(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM plant (sensor_id VARCHAR, value BIGINT) WITH (kafka_topic='plant', value_format='JSON');"
        "CREATE TABLE metadata (sensor_id VARCHAR PRIMARY KEY, type VARCHAR)"
        " WITH (KAFKA_TOPIC='metadataJson', value_format='JSON');"
        "CREATE STREAM joined AS SELECT p.sensor_id, p.value, m.type FROM plant AS p"
        " LEFT JOIN metadata AS m ON p.sensor_id = m.sensor_id EMIT CHANGES;"
    )
    piped(bench, "metadataJson", ("mySensor", {"sensor_id": "mySensor", "type": "cm"}, 0))
    found = piped(
        bench,
        "plant",
        (None, {"sensor_id": "mySensor", "value": 1}, 1),
        (None, {"sensor_id": "other", "value": 2}, 2),
    )
    assert found == [("mySensor", {"VALUE": 1, "TYPE": "cm"}, 1), ("other", {"VALUE": 2, "TYPE": None}, 2)]


def test_a_left_join_without_grace_shows_the_lonely_at_once_and_again_with_a_partner(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE STREAM r (id STRING KEY, w INT) WITH (kafka_topic='r', value_format='JSON');"
        "CREATE STREAM j AS SELECT s.id, v, w FROM s LEFT JOIN r WITHIN 1 MINUTE ON s.id = r.id;"
    )
    assert piped(bench, "s", ("a", {"v": 1}, 0)) == [("a", {"V": 1, "W": None}, 0)]
    assert piped(bench, "r", ("a", {"w": 2}, 10)) == [("a", {"V": 1, "W": 2}, 10)]


def test_a_left_join_with_grace_shows_the_lonely_when_their_time_is_over(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE STREAM r (id STRING KEY, w INT) WITH (kafka_topic='r', value_format='JSON');"
        "CREATE STREAM j AS SELECT s.id, v, w FROM s LEFT JOIN r WITHIN 1 SECOND GRACE PERIOD 0 SECONDS ON s.id = r.id;"
    )
    assert piped(bench, "s", ("a", {"v": 1}, 0)) == []
    assert piped(bench, "s", ("b", {"v": 2}, 5000)) == [("a", {"V": 1, "W": None}, 0)]


def test_an_outer_join_is_keyed_by_rowkey(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE STREAM r (id STRING KEY, w INT) WITH (kafka_topic='r', value_format='JSON');"
        "CREATE STREAM j AS SELECT ROWKEY, v, w FROM s FULL OUTER JOIN r WITHIN 1 MINUTE ON s.id = r.id;"
    )
    assert piped(bench, "r", ("a", {"w": 2}, 1)) == [("a", {"V": None, "W": 2}, 1)]


def test_streams_and_tables_joined_three_at_once(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE TABLE t (id STRING PRIMARY KEY, n STRING) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE u (n STRING PRIMARY KEY, x INT) WITH (kafka_topic='u', value_format='JSON');"
        "CREATE STREAM j AS SELECT t.n, s.id AS sid, v, x FROM s JOIN t ON s.id = t.id JOIN u ON t.n = u.n;"
    )
    piped(bench, "t", ("a", {"n": "one"}, 0))
    piped(bench, "u", ("one", {"x": 7}, 0))
    assert piped(bench, "s", ("a", {"v": 1}, 1)) == [("one", {"SID": "a", "V": 1, "X": 7}, 1)]


def test_tables_joined_by_key_and_by_foreign_key(bench: Bench) -> None:
    bench.execute(
        "CREATE TABLE o (id INT PRIMARY KEY, c STRING) WITH (kafka_topic='o', value_format='JSON');"
        "CREATE TABLE c (c STRING PRIMARY KEY, n STRING) WITH (kafka_topic='c', value_format='JSON');"
        "CREATE TABLE p (id INT PRIMARY KEY, paid BOOLEAN) WITH (kafka_topic='p', value_format='JSON');"
        "CREATE TABLE oc AS SELECT o.id, c.n FROM o LEFT JOIN c ON o.c = c.c;"
        "CREATE TABLE op AS SELECT o.id AS id, paid FROM o JOIN p ON o.id = p.id;"
    )
    assert piped(bench, "o", (1, {"c": "x"}, 0)) == [(1, {"N": None}, 0)]
    assert piped(bench, "c", ("x", {"n": "anna"}, 1)) == [(1, {"N": "anna"}, 1)]
    assert piped(bench, "p", (1, {"paid": True}, 2)) == [(1, {"PAID": True}, 2)]
    assert sorted(piped(bench, "o", (1, None, 3))) == [(1, None, 3), (1, None, 3)]


def test_windows_with_their_bounds_and_retention(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE TABLE w AS SELECT id, AVG(v) AS a, WINDOWSTART AS ws FROM s"
        " WINDOW TUMBLING (SIZE 60 SECONDS, RETENTION 2 MINUTES, GRACE PERIOD 1 MINUTE) GROUP BY id;"
    )
    for value, at in ((1, 0), (3, 59_999), (5, 60_000)):
        bench.pipe(CaseRecord("s", "a", {"v": value}, at))
    found = [(one.key, one.window, one.value) for one in bench.output()]
    assert found == [
        ("a", (0, 60_000), {"A": 1.0, "WS": 0}),
        ("a", (0, 60_000), {"A": 2.0, "WS": 0}),
        ("a", (60_000, 120_000), {"A": 5.0, "WS": 60_000}),
    ]


def test_averages_by_the_minute_begin_anew_every_minute(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM my_stream (key STRING KEY, value INT) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE my_table AS SELECT KEY, LATEST_BY_OFFSET(VALUE) AS VALUE, AVG(VALUE) AS AVERAGE FROM MY_STREAM"
        " WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 HOUR) GROUP BY KEY;"
    )
    given = [("A", 2, 0), ("A", 2, 10), ("B", 2, 20), ("B", 8, 70), ("A", 5, 80), ("A", 11, 90), ("A", 10, 130)]
    found = piped(bench, "t", *((key, {"value": value}, at * 1000) for key, value, at in given))
    assert [(key, value["VALUE"], value["AVERAGE"]) for key, value, _ in found] == [
        ("A", 2, 2.0),
        ("A", 2, 2.0),
        ("B", 2, 2.0),
        ("B", 8, 8.0),
        ("A", 5, 5.0),
        ("A", 11, 8.0),
        ("A", 10, 10.0),
    ]


def test_motors_are_counted_by_their_state(bench: Bench) -> None:
    bench.execute(
        MOTORS + "CREATE TABLE states WITH (value_format='JSON') AS"
        " SELECT value AS state, COUNT(*) AS total FROM myplant_motors_stream GROUP BY value EMIT CHANGES;"
    )
    for at, value in enumerate(["starting", "running", "error", "starting"]):
        columns = "(ROWTIME, sensor_id, datetime, value)"
        bench.execute(f"INSERT INTO myplant_motors_stream {columns} VALUES ({at}, 'myMotor', {at}, '{value}');")
    assert [(one.key, one.value["TOTAL"]) for one in by_topic(bench)["STATES"]] == [
        ("starting", 1),
        ("running", 1),
        ("error", 1),
        ("starting", 2),
    ]


def test_sessions_that_merge_leave_tombstones(bench: Bench) -> None:
    bench.execute(KEYED + "CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s WINDOW SESSION (5 SECONDS) GROUP BY id;")
    for at in (0, 8000, 4000):
        bench.pipe(CaseRecord("s", "a", {"v": 1}, at))
    found = [(one.window, one.value) for one in bench.output()]
    assert found[:2] == [((0, 0), {"N": 1}), ((8000, 8000), {"N": 1})]
    assert sorted(found[2:], key=str) == [((0, 0), None), ((0, 8000), {"N": 3}), ((8000, 8000), None)]


def test_emit_final_shows_a_window_once(bench: Bench) -> None:
    bench.execute(
        KEYED + "CREATE TABLE w AS SELECT id, COUNT(*) AS n FROM s"
        " WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY id EMIT FINAL;"
    )
    assert piped(bench, "s", ("a", {"v": 1}, 0), ("a", {"v": 1}, 500)) == []
    assert [value for _, value, _ in piped(bench, "s", ("a", {"v": 1}, 2500))] == [{"N": 2}]


def test_a_group_of_several_columns_is_a_key_of_several_columns(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM m (a STRING, b INT) WITH (kafka_topic='m', value_format='JSON');"
        "CREATE TABLE g WITH (key_format='JSON') AS SELECT a, b, COUNT(*) AS n FROM m"
        " GROUP BY a, b HAVING COUNT(*) > 1;"
    )
    found = piped(bench, "m", (None, {"a": "x", "b": 1}, 0), (None, {"a": "x", "b": 1}, 1), (None, {"a": "x"}, 2))
    assert [one for one in found if one[1] is not None] == [({"A": "x", "B": 1}, {"N": 2}, 1)]


def test_a_table_is_counted_again_when_a_row_moves(bench: Bench) -> None:
    bench.execute(
        "CREATE TABLE users (id STRING PRIMARY KEY, region STRING) WITH (kafka_topic='users', value_format='JSON');"
        "CREATE TABLE regions AS SELECT region, COUNT(*) AS n FROM users GROUP BY region;"
    )
    piped(bench, "users", ("a", {"region": "x"}, 0), ("b", {"region": "x"}, 0))
    assert piped(bench, "users", ("a", {"region": "y"}, 1)) == [("x", {"N": 1}, 1), ("y", {"N": 1}, 1)]


def test_partition_by_explode_and_insert_into(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM l (id STRING KEY, xs ARRAY<INT>) WITH (kafka_topic='l', value_format='JSON');"
        "CREATE STREAM e AS SELECT id, EXPLODE(xs) AS x FROM l;"
        "CREATE STREAM k AS SELECT x, id FROM e PARTITION BY x;"
        "CREATE STREAM all_of (x INT KEY, id STRING) WITH (kafka_topic='all', value_format='DELIMITED');"
        "INSERT INTO all_of SELECT x, id FROM k;"
    )
    bench.pipe(CaseRecord("l", "a", {"xs": [1, 2]}, 0))
    found = by_topic(bench)
    assert [(one.key, one.value) for one in found["K"]] == [(1, {"ID": "a"}), (2, {"ID": "a"})]
    assert [(one.key, one.value) for one in found["all"]] == [(1, "a"), (2, "a")]


def test_times_headers_and_places_of_records(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM h (id STRING KEY, ts STRING, k BYTES HEADER('k')) WITH (kafka_topic='h', value_format='JSON',"
        " timestamp='ts', timestamp_format='yyyy-MM-dd HH:mm:ss');"
        "CREATE STREAM o AS SELECT id, ROWTIME AS rt, ROWPARTITION AS p, ROWOFFSET AS o, FROM_BYTES(k, 'utf8') AS k"
        " FROM h;"
    )
    bench.pipe(CaseRecord("h", "a", {"ts": "1970-01-01 00:00:05"}, 0, headers=(("k", b"v"),)))
    (found,) = bench.output()
    assert (found.value, found.timestamp_ms) == ({"RT": 5000, "P": 0, "O": 0, "K": "v"}, 5000)


def test_a_record_that_cannot_be_read_is_told_in_the_processing_log() -> None:
    bench = Bench(Engine(log_topic="log"))
    bench.execute(KEYED + "CREATE STREAM o AS SELECT * FROM s;")
    bench.pipe_bytes("s", b"a", b'{"v": "no number"}', 0)
    bench.pipe_bytes("s", b"a", b'{"v": 1}', 1)
    (line,) = (json.loads(one.value or b"") for one in bench._written if one.topic == "log")
    assert (
        line["message"]["deserializationError"]["errorMessage"]
        == 'Can\'t convert field V: For input string: "no number"'
    )
    assert [one.value for one in bench._written if one.topic == "O"] == [b'{"V":1}']
    bench.close()


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "CREATE STREAM x AS SELECT v FROM s;",
            "Key missing from projection. The query used to build `X` must include",
        ),
        ("CREATE TABLE x AS SELECT * FROM s;", "Invalid result type. Your SELECT query produces a STREAM."),
        ("CREATE STREAM x AS SELECT id, vv FROM s;", "line 1:31: Column 'VV' cannot be resolved. Did you mean 'V'?"),
        ("CREATE STREAM x AS SELECT * FROM ss;", "SS does not exist. Did you mean 'S'?"),
        (
            "CREATE STREAM s (a INT) WITH (kafka_topic='s', value_format='JSON');",
            "Cannot add stream `S`: A stream with",
        ),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='s');", "Statement is missing the 'VALUE_FORMAT' property"),
        (
            "CREATE STREAM x (a INT) WITH (kafka_topik='s', value_format='JSON');",
            "Invalid config variable(s) in the WITH",
        ),
        ("CREATE TABLE x (a INT) WITH (kafka_topic='s', value_format='JSON');", "Tables require a PRIMARY KEY."),
        (
            "CREATE STREAM x AS SELECT s.id, v FROM s JOIN t ON q.id = t.id;",
            "line 1:52: 'Q' is not a valid stream/table",
        ),
        (
            "CREATE STREAM x AS SELECT s.id FROM s JOIN s2 ON s.id = s2.id;",
            "Stream-Stream joins must have a WITHIN clause",
        ),
        (
            "CREATE TABLE x AS SELECT id, v, COUNT(*) FROM s GROUP BY id;",
            "Non-aggregate SELECT expression(s) not part of",
        ),
        (
            "CREATE TABLE x AS SELECT id, COUNT(*) FROM s WINDOW TUMBLING"
            " (SIZE 1 HOUR, RETENTION 1 MINUTE) GROUP BY id;",
            "The window retention of 60000 milliseconds must be greater than or equal to the window size plus",
        ),
        ("DROP STREAM s;", "Cannot drop S."),
        ("INSERT INTO s (id, w) VALUES ('a', 1);", "Column name W does not exist in S."),
        ("INSERT INTO s (id, v) VALUES ('a', 'b');", "Expected type INTEGER for field V but got STRING"),
    ],
)
def test_a_wrong_statement_is_refused_in_a_sentence(bench: Bench, statement: str, sentence: str) -> None:
    bench.execute(
        KEYED + "CREATE STREAM s2 (id STRING KEY, w INT) WITH (kafka_topic='s2', value_format='JSON');"
        "CREATE TABLE t (id STRING PRIMARY KEY, n STRING) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE STREAM reader AS SELECT * FROM s;"
    )
    with pytest.raises(SqlError) as refused:
        bench.execute(statement)
    assert refused.value.message.startswith(sentence)


@pytest.mark.parametrize("name", ["s", "s2"])
def test_what_an_insert_reads_or_writes_is_not_dropped(bench: Bench, name: str) -> None:
    bench.execute(
        KEYED + "CREATE STREAM s2 (id STRING KEY, v INT) WITH (kafka_topic='s2', value_format='JSON');"
        "INSERT INTO s2 SELECT * FROM s;"
    )
    with pytest.raises(SqlError) as refused:
        bench.execute(f"DROP STREAM {name};")
    (query,) = bench.engine.queries
    reads, writes = (query, "") if name == "s" else ("", query)
    assert refused.value.message == (
        f"Cannot drop {name.upper()}.\nThe following queries read from this source: [{reads}].\n"
        f"The following queries write into this source: [{writes}].\n"
        f"You need to terminate them before dropping {name.upper()}."
    )


def test_the_tool_tells_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "statements.sql").write_text(KEYED + "CREATE STREAM o AS SELECT id, v + 1 AS v FROM s;")
    (tmp_path / "input.json").write_text('{"inputs": [{"topic": "s", "key": "a", "value": {"v": 1}, "timestamp": 3}]}')
    right = {"topic": "O", "key": "a", "value": {"V": 2}, "timestamp": 3}
    (tmp_path / "output.json").write_text(json.dumps({"outputs": [right]}))
    files = ["-s", "statements.sql", "-i", "input.json", "-o", "output.json"]
    arguments = [one if one.startswith("-") else str(tmp_path / one) for one in files]
    assert main(["ksql-test-runner", *arguments]) == 0
    assert capsys.readouterr().out == "\t >>> Test passed!\n"
    (tmp_path / "output.json").write_text(json.dumps({"outputs": [right | {"value": {"V": 3}}]}))
    assert main(["ksql-test-runner", str(tmp_path)]) == 1
    assert capsys.readouterr().out == (
        '\t>>>>> Test failed: Topic O, message 0: Expected <"a", {"V": 3}> with timestamp=3 '
        'but was <"a", {"V": 2}> with timestamp=3\n'
    )


def test_metadata_of_a_time_of_their_own_hold_for_what_came_before_them(bench: Bench) -> None:
    """A table whose rows say from when they hold is read in the order of its records all the same."""
    bench.execute(
        "CREATE STREAM m (sensor_id VARCHAR KEY, value BIGINT) WITH (kafka_topic='m', value_format='JSON');"
        "CREATE TABLE metadata_table(sensor_id VARCHAR PRIMARY KEY, type VARCHAR, timest\t BIGINT)"
        " WITH (KAFKA_TOPIC = 'metadataJson',  TIMESTAMP='timest', value_format='JSON');"
        "CREATE STREAM o AS SELECT s.sensor_id, s.value, m.type FROM m AS s"
        " LEFT JOIN metadata_table AS m ON s.sensor_id = m.sensor_id EMIT CHANGES;"
    )
    bench.pipe(CaseRecord("metadataJson", "mySensor", {"sensor_id": "mySensor", "type": "cm", "timest": "0"}, 5000))
    assert piped(bench, "m", ("mySensor", {"value": 1}, 1000)) == [("mySensor", {"VALUE": 1, "TYPE": "cm"}, 1000)]


def test_of_several_starts_the_last_one_before_a_stop_counts(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM a (sensor_id VARCHAR KEY, datetime BIGINT) WITH (kafka_topic='a', value_format='JSON');"
        "CREATE STREAM b (sensor_id VARCHAR KEY, datetime BIGINT) WITH (kafka_topic='b', value_format='JSON');"
        "create stream mymotor_uptime_stream as select start.sensor_id, stop.datetime as stop_datetime,"
        " CONVERT_TZ(FROM_UNIXTIME(start.datetime), 'UTC', 'Europe/Zurich') AS starting,"
        " (stop.datetime - start.datetime)/1000 as diff from a start inner join b stop within 2 minutes"
        " on start.sensor_id = stop.sensor_id where ((stop.datetime - start.datetime)/1000)  >= 0 emit changes;"
        "create table mymotor_uptime_table as select  stop_datetime, latest_by_offset(starting) as starting,"
        " min(diff) as diff from mymotor_uptime_stream group by stop_datetime;"
    )
    for at in (10_000, 50_000):
        bench.pipe(CaseRecord("a", "myMotor", {"datetime": at}, at))
    bench.output()
    bench.pipe(CaseRecord("b", "myMotor", {"datetime": 60_000}, 60_000))
    found = [one for one in bench.output() if one.topic == "MYMOTOR_UPTIME_TABLE"]
    assert (found[-1].key, found[-1].value) == (60_000, {"STARTING": 50_000 + 3_600_000, "DIFF": 10})
