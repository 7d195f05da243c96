"""What statements mean to the letter: records without values, keys behind PARTITION BY and joins, lists, nulls."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas.client.serdes import Deserializer, Schema, Serializer, shared_registry
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.plan.planner import Planned, plan
from barnabas.pipelines.sql.runner import Bench, CaseRecord
from barnabas.pipelines.sql.server.pushes import shown_rows
from barnabas.pipelines.sql.server.selecting import row_tree
from barnabas.pipelines.streams.errors import RecordError
from barnabas.pipelines.streams.windows import Windowed

ROOMS = "CREATE STREAM rooms (id INT KEY, floor INT, door STRUCT<width INT>) WITH (kafka_topic='rooms', format='JSON');"
PAIRS = (
    "CREATE STREAM l (id INT KEY, a INT) WITH (kafka_topic='l', value_format='JSON');"
    "CREATE STREAM r (id INT KEY, b INT) WITH (kafka_topic='r', value_format='JSON');"
    "CREATE TABLE t (id INT PRIMARY KEY, c INT) WITH (kafka_topic='t', value_format='JSON');"
)


@pytest.fixture
def bench(sql_bench: Bench) -> Bench:
    return sql_bench


def piped(bench: Bench, topic: str, *records: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    for at, (key, value) in enumerate(records):
        bench.pipe(CaseRecord(topic, key, value, at))
    return [(one.key, one.value) for one in bench.output()]


def names(bench: Bench, source: str) -> list[str]:
    found = bench.engine.metastore.source(source)
    return [f"{one.name} KEY" if one.role == "KEY" else one.name for one in found.columns]


def computed(bench: Bench, expression: str, columns: str, **values: Any) -> Any:
    bench.execute(
        f"CREATE STREAM s ({columns}) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM o AS SELECT {expression} AS x FROM s;"
    )
    ((_, value),) = piped(bench, "s", (None, values))
    return value["X"]


def test_a_record_of_a_stream_without_a_value_goes_on_as_one(bench: Bench) -> None:
    bench.execute(
        f"{ROOMS} CREATE STREAM all_rooms AS SELECT id, floor FROM rooms;"
        "CREATE STREAM low AS SELECT id, floor FROM rooms WHERE 1 = 1;"
        "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM rooms GROUP BY id;"
    )
    for value in ({"floor": 1}, None):
        bench.pipe(CaseRecord("rooms", 7, value, 0))
    found = [(one.topic, one.value) for one in bench.output()]
    assert [value for topic, value in found if topic == "ALL_ROOMS"] == [{"FLOOR": 1}, None]
    assert [value for topic, value in found if topic == "LOW"] == [{"FLOOR": 1}]
    assert [value for topic, value in found if topic == "COUNTS"] == [{"N": 1}]


def test_a_record_without_a_value_is_partitioned_by_what_its_key_has(bench: Bench) -> None:
    bench.execute(f"{ROOMS} CREATE STREAM moved AS SELECT id, floor FROM rooms PARTITION BY id, floor;")
    assert piped(bench, "rooms", (7, {"floor": 1}), (7, None)) == [
        ({"ID": 7, "FLOOR": 1}, {}),
        ({"ID": 7, "FLOOR": None}, None),
    ]


def test_a_new_key_that_looks_at_a_value_is_null_where_there_is_none(bench: Bench) -> None:
    bench.execute(f"{ROOMS} CREATE STREAM moved AS SELECT * FROM rooms PARTITION BY floor IS NULL, id + 1, 5;")
    keys = [key for key, _ in piped(bench, "rooms", (7, {"floor": 1}), (7, None))]
    assert [list(key.values()) for key in keys] == [[False, 8, 5], [None, 8, 5]]


@pytest.mark.parametrize(
    ("by", "columns"),
    [
        ("floor IS NULL", ["KSQL_COL_0 KEY", "FLOOR", "DOOR", "ID"]),
        ("floor", ["FLOOR KEY", "DOOR", "ID"]),
        ("ABS(floor)", ["KSQL_COL_0 KEY", "FLOOR", "DOOR", "ID"]),
        ("door->width", ["WIDTH KEY", "FLOOR", "DOOR", "ID"]),
        ("floor, id", ["FLOOR KEY", "ID KEY", "DOOR"]),
    ],
)
def test_a_star_behind_partition_by_begins_with_the_new_key(bench: Bench, by: str, columns: list[str]) -> None:
    bench.execute(f"{ROOMS} CREATE STREAM o AS SELECT * FROM rooms PARTITION BY {by};")
    assert names(bench, "O") == columns


def test_a_stream_without_a_key_passes_its_key_format_on(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='s', format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s PARTITION BY b, a;"
    )
    assert piped(bench, "s", (None, {"a": 1, "b": 2})) == [({"B": 2, "A": 1}, {})]


def test_a_struct_within_a_struct_is_a_key(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (a STRUCT<b STRUCT<c INT>>) WITH (kafka_topic='s', format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s PARTITION BY a;"
    )
    assert piped(bench, "s", (None, {"a": {"b": {"c": 3}}}))[0][0] == {"B": {"C": 3}}


def test_the_key_of_several_joins_may_be_any_column_that_equals_it(bench: Bench) -> None:
    bench.execute(
        f"{PAIRS} CREATE STREAM o AS SELECT r.id, a, b, c FROM l JOIN r WITHIN 1 MINUTE ON l.id = r.id "
        "JOIN t ON l.id = t.id;"
    )
    assert names(bench, "O") == ["R_ID KEY", "A", "B", "C"]
    for topic, value in (("t", {"c": 3}), ("l", {"a": 1}), ("r", {"b": 2})):
        bench.pipe(CaseRecord(topic, 5, value, 0))
    assert [(one.key, one.value) for one in bench.output()] == [(5, {"A": 1, "B": 2, "C": 3})]


def test_a_join_by_the_side_that_is_missing_is_no_join_by_the_key(bench: Bench) -> None:
    bench.execute(
        f"{PAIRS} CREATE STREAM o AS SELECT r.id, a, c FROM l LEFT JOIN r WITHIN 1 MINUTE ON l.id = r.id "
        "LEFT JOIN t ON r.id = t.id;"
    )
    for topic, value in (("t", {"c": 3}), ("l", {"a": 1})):
        bench.pipe(CaseRecord(topic, 5, value, 0))
    assert [one.value["C"] for one in bench.output() if one.value] in ([], [None])


def test_full_joins_of_three_streams_have_one_rowkey(bench: Bench) -> None:
    bench.execute(
        f"{PAIRS} CREATE STREAM m (id INT KEY, d INT) WITH (kafka_topic='m', value_format='JSON');"
        "CREATE STREAM o AS SELECT ROWKEY, a, b, d FROM l FULL JOIN r WITHIN 1 MINUTE ON l.id = r.id "
        "FULL JOIN m WITHIN 1 MINUTE ON l.id = m.id;"
    )
    assert names(bench, "O") == ["ROWKEY KEY", "A", "B", "D"]


def test_the_key_of_a_join_is_that_of_its_left_side_if_both_are_shown(bench: Bench) -> None:
    bench.execute(f"{PAIRS} CREATE STREAM o AS SELECT r.*, l.id FROM l JOIN r WITHIN 1 MINUTE ON l.id = r.id;")
    assert names(bench, "O") == ["L_ID KEY", "R_ID", "R_B"]


def test_names_that_are_made_avoid_those_of_columns(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (KSQL_COL_1 INT KEY, n INT, b STRUCT<n INT>) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o AS SELECT KSQL_COL_1, n + 1, n + 2, b->n FROM s;"
    )
    assert names(bench, "O") == ["KSQL_COL_1 KEY", "KSQL_COL_0", "KSQL_COL_2", "N_1"]


def test_a_windowed_stream_keeps_its_bounds_in_its_key(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', window_type='TUMBLING', "
        "window_size='10 SECONDS'); CREATE STREAM o AS SELECT * FROM s;"
    )
    assert names(bench, "O") == ["ID KEY", "V"]
    bench.pipe(CaseRecord("s", "a", {"v": 1}, 0, (20_000, 30_000)))
    (found,) = bench.output()
    assert (found.key, found.value, found.window) == ("a", {"V": 1}, (20_000, 30_000))


@pytest.mark.parametrize(
    ("expression", "columns", "value", "wanted"),
    [
        ("v IN (10, '7', 8.5)", "v INT", 7, True),
        ("v IN ('true', false)", "v BOOLEAN", True, True),
        ("v IN ('1', 2)", "v STRING", "2", True),
        ("v IN (ARRAY['1', 2], ARRAY[3])", "v ARRAY<BIGINT>", [1, 2], True),
        ("ARRAY[1, '2', v]", "v BIGINT", 3, [1, 2, 3]),
        ("v = 1.1", "v DOUBLE", 1.1, True),
        ("v > 0.1", "v DOUBLE", 0.1, False),
        ("ARRAY[44, CAST(v AS INT)]", "v STRING", "?", [44, None]),
        ("STRUCT(a := 1, b := CAST(v AS INT))", "v STRING", "?", {"A": 1, "B": None}),
        ("MAP('a' := 1, 'b' := CAST(v AS INT))", "v STRING", "?", {"a": 1, "b": None}),
        ("COALESCE(CAST(v AS INT), 5)", "v STRING", "?", 5),
        ("CASE WHEN v IS NULL THEN 0 ELSE CAST(v AS INT) END", "v STRING", "?", None),
        ("TRANSFORM(v, x => x + 5)", "v ARRAY<INT>", [1, 2], [6, 7]),
        ("TRANSFORM(v, x => x + 5)", "v ARRAY<INT>", [1, None], None),
        ("TRANSFORM(v, (k, x) => 'same', (k, x) => x)", "v MAP<STRING, INT>", {"a": 1, "b": 2}, None),
        ("ARRAY_EXCEPT(ARRAY[1], v)", "v ARRAY<INT>", None, None),
        ("LN(v)", "v INT", -1, "NaN"),
        ("LN(v)", "v INT", 0, "-Infinity"),
        ("JSON_RECORDS(v)", "v STRING", '{"a": "x", "b": 1}', {"a": "x", "b": "1"}),
        ("SPLIT_TO_MAP(v, '/', ':')", "v STRING", "a:b:c/d:e", {"a": "b", "d": "e"}),
        ("SPLIT(v, '')", "v STRING", "", [""]),
        ("ENCODE(v, 'hex', 'utf8')", "v STRING", "X'", None),
        ("ENCODE(v, 'hex', 'utf8')", "v STRING", "X'4142'", "AB"),
        ("GEO_DISTANCE(1, 1, 1, 1, v)", "v STRING", None, 0.0),
        ("GREATEST(v, '2020-01-02')", "v DATE", 0, 18263),
        ("CAST(v AS STRING)", "v DOUBLE", 5e-324, "4.9E-324"),
        ("PARSE_DATE(v, 'yyyy-MM-dd')", "v STRING", "2020-01-02 and more", 18263),
        ("STRINGTOTIMESTAMP(v, 'yyyy-MM-dd HH:mm:ssX')", "v STRING", "1970-01-01 00:00:01z", 1000),
        ("PARSE_TIMESTAMP(v, 'yyyy-MM-dd HH:mm zzz')", "v STRING", "2020-06-01 00:00 PST", 1590994800000),
        ("EXTRACTJSONFIELD(v, '$.a')", "v STRING", '{"a": 1}}', "1"),
    ],
)
def test_an_expression_gives(bench: Bench, expression: str, columns: str, value: Any, wanted: Any) -> None:
    assert computed(bench, expression, columns, v=value) == wanted


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("v IN (1, 'x')", "Cannot compare"),
        ("STRUCT(a := 1, a := 2)", "`A` is there twice"),
    ],
)
def test_an_expression_is_refused(bench: Bench, expression: str, sentence: str) -> None:
    with pytest.raises(SqlError, match=sentence):
        computed(bench, expression, "v INT", v=1)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM m (k MAP<STRING, INT> KEY, v INT) WITH (kafka_topic='m', format='JSON');",
        "CREATE STREAM m (k INT, v MAP<STRING, INT>) WITH (kafka_topic='m', format='JSON');"
        "CREATE STREAM o AS SELECT * FROM m PARTITION BY v;",
        "CREATE STREAM m (k INT, v STRUCT<a MAP<STRING, INT>>) WITH (kafka_topic='m', format='JSON');"
        "CREATE TABLE o AS SELECT v, COUNT(*) FROM m GROUP BY v;",
    ],
)
def test_a_map_is_no_key(bench: Bench, statement: str) -> None:
    with pytest.raises(SqlError, match="A key can't be a MAP"):
        bench.execute(statement)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("-10", '"-10"'),
        (" x", '" x"'),
        ("", '""'),
        (None, ""),
    ],
)
def test_the_first_text_of_a_line_is_quoted_as_csv_is(bench: Bench, value: str | None, written: str) -> None:
    bench.execute(
        "CREATE STREAM s (a STRING, b INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o WITH (value_format='DELIMITED') AS SELECT * FROM s;"
    )
    assert piped(bench, "s", (None, {"a": value, "b": -1})) == [(None, f"{written},-1")]


def test_the_greatest_values_come_with_other_columns_beside_them(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (id STRING KEY, v INT, who STRING) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE TABLE o AS SELECT id, TOPK(v, who, 2) AS best FROM s GROUP BY id;"
    )
    found = piped(bench, "s", *(("a", {"v": v, "who": who}) for v, who in ((1, "x"), (3, "y"), (None, "z"), (2, None))))
    assert found[-1][1]["BEST"] == [{"sort_col": 3, "col0": "y"}, {"sort_col": 2, "col0": None}]


def test_stddev_samp_is_the_square_of_stddev_sample(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE TABLE o AS SELECT id, STDDEV_SAMP(v) AS a, STDDEV_SAMPLE(v) AS b FROM s GROUP BY id;"
    )
    assert piped(bench, "s", ("a", {"v": 2}), ("a", {"v": 8}))[-1][1] == {"A": 18.0, "B": pytest.approx(18.0**0.5)}


def test_columns_of_the_key_are_inferred_beside_those_of_the_value_that_are_named(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    registry.register("keyed-key", Schema('"long"', "AVRO"))
    bench.execute("CREATE STREAM s (v INT) WITH (kafka_topic='keyed', key_format='AVRO', value_format='JSON');")
    assert [(one.name, str(one.kind)) for one in bench.engine.metastore.source("S").columns] == [
        ("ROWKEY", "BIGINT"),
        ("V", "INTEGER"),
    ]


def test_a_result_whose_own_time_is_none_is_left_out(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (t STRING, n BIGINT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o WITH (timestamp='t', timestamp_format='yyyy-MM-dd') AS SELECT * FROM s;"
        "CREATE STREAM p WITH (timestamp='n') AS SELECT * FROM s;"
    )
    for text, number in (("2020-01-01", 5), ("never", 6), ("2020-01-02", -1)):
        bench.pipe(CaseRecord("s", None, {"t": text, "n": number}, 0))
    found = bench.output()
    assert [one.value["N"] for one in found if one.topic == "O"] == [5, -1]
    assert [one.timestamp_ms for one in found if one.topic == "P"] == [5, 6]


def test_a_last_result_waits_for_no_late_records_unless_told_to(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 2 MILLISECONDS) GROUP BY id "
        "EMIT FINAL;"
    )
    assert piped(bench, "s", *[("a", {"v": 1})] * 3) == [("a", {"N": 2})]


def test_an_insert_widens_numbers_to_those_of_its_target(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o (v DECIMAL(5, 2), w BIGINT) WITH (kafka_topic='o', value_format='JSON');"
        "INSERT INTO o SELECT v, v AS w FROM s;"
    )
    assert piped(bench, "s", (None, {"v": 3})) == [(None, {"V": 3.0, "W": 3})]


def test_the_server_says_whether_single_values_are_wrapped(bench: Bench) -> None:
    bench.engine.settings["ksql.persistence.wrap.single.values"] = "false"
    bench.execute(
        "CREATE STREAM s (v STRING, w INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o AS SELECT v FROM s;"
    )
    assert piped(bench, "s", (None, {"v": "x"})) == [(None, "x")]


WINDOWED = (
    "CREATE STREAM w (id INT KEY, v INT) WITH (kafka_topic='w', value_format='JSON', window_type='SESSION');"
    "CREATE STREAM x (id INT KEY, v INT) WITH (kafka_topic='x', value_format='JSON', window_type='TUMBLING', "
    "window_size='1 SECOND');"
    "CREATE STREAM y (id INT KEY, v INT) WITH (kafka_topic='y', value_format='JSON', window_type='SESSION');"
)


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("SELECT * FROM w JOIN l WITHIN 1 DAY ON w.id = l.id;", "windowed source to non-windowed"),
        ("SELECT * FROM w JOIN x WITHIN 1 DAY ON w.id = x.id;", "Incompatible windowed sources"),
        ("SELECT * FROM w JOIN y WITHIN 1 DAY ON w.id = y.v;", "repartitioning of windowed sources"),
        ("SELECT * FROM l JOIN l AS m WITHIN 1 DAY ON l.id = m.id;", "self joins"),
        ("SELECT l.id, a = NULL FROM l;", "IS NULL, or IS DISTINCT FROM"),
        ("SELECT * FROM l LIMIT 3;", "LIMIT is for SELECT alone"),
        ("SELECT * FROM l LIMIT -3;", "LIMIT is a number of rows"),
    ],
)
def test_a_query_is_refused(bench: Bench, statement: str, sentence: str) -> None:
    bench.execute(PAIRS + WINDOWED)
    with pytest.raises(SqlError, match=sentence):
        bench.execute(f"CREATE STREAM o AS {statement}")


def test_a_table_is_joined_by_a_foreign_key_first_or_not_at_all(bench: Bench) -> None:
    bench.execute(
        "CREATE TABLE a (id INT PRIMARY KEY, b INT, c INT) WITH (kafka_topic='a', value_format='JSON');"
        "CREATE TABLE b (id INT PRIMARY KEY, x INT) WITH (kafka_topic='b', value_format='JSON');"
        "CREATE TABLE c (id INT PRIMARY KEY, y INT) WITH (kafka_topic='c', value_format='JSON');"
    )
    with pytest.raises(SqlError, match="foreign-key table-table joins are not supported as part of n-way joins"):
        bench.execute("CREATE TABLE o AS SELECT a.id, x, y FROM a JOIN b ON a.id = b.id JOIN c ON a.c = c.id;")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "CREATE STREAM s (v INT) WITH (kafka_topic='s', key_format='FOO', value_format='JSON');",
            "Unknown format: FOO",
        ),
        (
            "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='KAFKA', wrap_single_value=true);",
            "'KAFKA' does not support 'WRAP_SINGLE_VALUE' set to 'true'",
        ),
        (
            "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='PROTOBUF', wrap_single_value=false);",
            "'PROTOBUF' does not support 'WRAP_SINGLE_VALUE' set to 'false'",
        ),
        ("CREATE STREAM s (v MAP<INT, INT>) WITH (kafka_topic='s', value_format='JSON');", "MAPs with STRING keys"),
        ("CREATE STREAM s (`1v` INT) WITH (kafka_topic='s', value_format='AVRO');", "`1v` can't be a field of Avro"),
        (
            "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', window_type='SESSION');",
            "Windowed sources require a key",
        ),
        (
            "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON', key_schema_id=1);",
            "KEY_SCHEMA_ID is for formats with a registry",
        ),
        *(
            (
                f"CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='DELIMITED', value_delimiter='{one}');",
                told,
            )
            for one, told in (("<>", "is one character"), ("", "can't be empty"), (" ", "can't be empty"))
        ),
        ("CREATE STREAM s WITH (kafka_topic='s', value_format='FOO');", "Unknown format: FOO"),
        ("CREATE STREAM s WITH (key_format='FOO') AS SELECT * FROM given;", "Unknown format: FOO"),
        (
            "CREATE STREAM s (a ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, b BYTES HEADER('b')) "
            "WITH (kafka_topic='s', value_format='JSON');",
            "Schema already contains a HEADERS column.",
        ),
        (
            "CREATE STREAM s (a BYTES HEADER('b'), b BYTES HEADER('b')) WITH (kafka_topic='s', value_format='JSON');",
            "Schema already contains a HEADER.'b'. column",
        ),
        ("DROP STREAM given DELETE TOPIC;", "Cannot delete topic for read-only source"),
        (
            "CREATE OR REPLACE STREAM given (v INT) WITH (kafka_topic='g', value_format='JSON');",
            "not supported on source",
        ),
        ("CREATE OR REPLACE SOURCE STREAM n (v INT) WITH (kafka_topic='g', value_format='JSON');", "not supported on"),
        ("ALTER STREAM given ADD COLUMN w INT;", "ALTER operations are not supported on source"),
    ],
)
def test_a_definition_is_refused(bench: Bench, statement: str, sentence: str) -> None:
    bench.execute("CREATE SOURCE STREAM given (v INT) WITH (kafka_topic='g', value_format='JSON');")
    with pytest.raises(SqlError, match=sentence):
        bench.execute(statement)


def test_types_of_json_schemas_are_those_that_connect_notes(bench: Bench) -> None:
    columns = "a INT, b BIGINT, c DECIMAL(5, 2), d TIMESTAMP, e DATE, f TIME, g BYTES, h DOUBLE, i ARRAY<INT>"
    bench.execute(f"CREATE STREAM s ({columns}) WITH (kafka_topic='typed', value_format='JSON_SR');")
    written = {name.upper(): value for name, value in zip("abcdefgh", (1, 2, 1.5, 3, 4, 5, "QQ==", 0.5), strict=True)}
    bench.execute("CREATE STREAM o WITH (kafka_topic='typed2') AS SELECT * FROM s;")
    bench.pipe(CaseRecord("typed", None, written | {"I": [7]}, 0))
    assert [one.value["C"] for one in bench.output()] == [1.5]
    bench.execute("CREATE STREAM p WITH (kafka_topic='typed2', value_format='JSON_SR');")
    first, second = (bench.engine.metastore.source(one).columns for one in ("S", "P"))
    assert [str(one.kind) for one in first] == [str(one.kind) for one in second]


def test_a_given_schema_spells_its_fields_and_fills_what_is_missing(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    fields = [
        {"name": "vName", "type": "int"},
        {"name": "more", "type": {"type": "record", "name": "More", "fields": [{"name": "inIt", "type": "int"}]}},
        {"name": "extra", "type": "int", "default": 7},
    ]
    text = json.dumps({"type": "record", "name": "Given", "fields": fields})
    made = registry.register("by-id-value", Schema(text, "AVRO"))
    bench.execute(
        "CREATE STREAM s (v INT, more STRUCT<init INT>) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM o WITH (value_format='AVRO', value_schema_id={made.id}) AS SELECT v AS vname, more FROM s;"
    )
    bench.pipe(CaseRecord("s", None, {"v": 1, "more": {"init": 2}}, 0))
    (written,) = (one.value for one in bench._written if one.topic == "O")
    found = Deserializer(registry).decode(written or b"")
    assert found == {"vName": 1, "more": {"inIt": 2}, "extra": 7}


def test_a_full_name_is_that_of_the_schema_that_is_made(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    bench.execute(
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM named_a WITH (value_format='AVRO', value_schema_full_name='my.own.Name') AS SELECT * FROM s;"
        "CREATE STREAM named_p WITH (value_format='PROTOBUF', value_schema_full_name='Name') AS SELECT * FROM s;"
    )
    bench.pipe(CaseRecord("s", None, {"v": 1}, 0))
    tree = json.loads(registry.latest("NAMED_A-value").schema.text)
    assert (tree["namespace"], tree["name"]) == ("my.own", "Name")
    assert "message Name {" in registry.latest("NAMED_P-value").schema.text
    with pytest.raises(SqlError, match="is for AVRO and PROTOBUF"):
        bench.execute(
            "CREATE STREAM t (v INT) WITH (kafka_topic='t', value_format='JSON', value_schema_full_name='N');"
        )


def test_steps_between_register_nothing_under_the_subject_of_a_source(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    registry.register("own-key", Schema('"long"', "AVRO"))
    bench.execute(
        "CREATE STREAM l (k BIGINT, v INT) WITH (kafka_topic='l', value_format='JSON');"
        "CREATE TABLE t (id BIGINT PRIMARY KEY, w INT) "
        "WITH (kafka_topic='own', key_format='AVRO', value_format='JSON');"
        "CREATE STREAM o WITH (key_format='KAFKA') AS SELECT k, v, w FROM l LEFT JOIN t ON l.k = t.id;"
    )
    bench.pipe(CaseRecord("l", None, {"k": 1, "v": 2}, 0))
    assert [one.value for one in bench.output()] == [{"V": 2, "W": None}]
    assert registry.versions("own-key") == [1]


def test_a_schema_of_another_kind_is_told(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    made = registry.register("other", Schema('"long"', "AVRO"))
    bench.execute(
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM o WITH (value_format='JSON_SR', value_schema_id={made.id}) AS SELECT * FROM s;"
    )
    with pytest.raises(RecordError, match="is of type AVRO, and the format is JSON_SR"):
        piped(bench, "s", (None, {"v": 1}))


@pytest.mark.parametrize(
    ("how", "written"), [("OPTIONAL", "optional int32 I = 1;"), ("WRAPPER", "google.protobuf.Int32")]
)
def test_protobuf_tells_null_from_nothing_if_asked_to(bench: Bench, how: str, written: str) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    with_nulls = f"value_format='PROTOBUF', value_protobuf_nullable_representation='{how}'"
    bench.execute(
        "CREATE STREAM s (i INT, t STRING) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM p WITH (kafka_topic='nulls-{how}', {with_nulls}) AS SELECT * FROM s;"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT * FROM p;"
    )
    for value in ({"i": None, "t": ""}, {"i": 0, "t": None}):
        bench.pipe(CaseRecord("s", None, value, 0))
    found = [one.value for one in bench.output() if one.topic == "O"]
    assert found == [{"I": None, "T": ""}, {"I": 0, "T": None}]
    assert written in registry.latest(f"nulls-{how}-value").schema.text


def test_times_and_numbers_of_others_protobuf_are_read(bench: Bench) -> None:
    registry = shared_registry(str(bench.engine.settings["ksql.schema.registry.url"]))
    text = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
        "message M { google.protobuf.Timestamp at = 1; Money cost = 2; Day day = 3; }"
        "message Money { bytes value = 1; uint32 precision = 2; int32 scale = 3; }"
        "message Day { int32 year = 1; int32 month = 2; int32 day = 3; }"
    )
    registry.register("others-value", Schema(text, "PROTOBUF"))
    when = datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC)
    value = {"at": when, "cost": {"value": b"\x7d", "scale": 2}, "day": {"year": 1970, "month": 1, "day": 3}}
    data = Serializer(registry, Schema(text, "PROTOBUF")).encode("others", value)
    bench.execute(
        "CREATE STREAM s WITH (kafka_topic='others', value_format='PROTOBUF');"
        "CREATE STREAM t (at TIMESTAMP, cost DECIMAL(5, 2), day DATE) "
        "WITH (kafka_topic='others', value_format='PROTOBUF');"
        "CREATE STREAM o WITH (value_format='JSON') AS SELECT at FROM s;"
        "CREATE STREAM p WITH (value_format='JSON') AS SELECT * FROM t;"
    )
    bench.pipe_bytes("others", None, data, 0)
    found = {one.topic: one.value for one in bench.output()}
    assert found == {"O": {"AT": 1577836801000}, "P": {"AT": 1577836801000, "COST": 1.25, "DAY": 2}}


def test_lists_are_as_long_as_settings_let_them(bench: Bench) -> None:
    text = "SELECT id, COLLECT_LIST(floor) AS l, COLLECT_SET(floor) AS s FROM rooms GROUP BY id;"
    bench.execute(f"{ROOMS} CREATE TABLE whole AS {text}")
    bench.execute(
        "SET 'ksql.streams.ksql.functions.collect_list.limit'='2'; SET 'ksql.functions.collect_set.limit'='1';"
        f"CREATE TABLE short AS {text}"
    )
    for at in range(1002):
        bench.pipe(CaseRecord("rooms", 7, {"floor": at}, at))
    last = {one.topic: one.value for one in bench.output()}
    assert {name: len(one) for name, one in last["WHOLE"].items()} == {"L": 1002, "S": 1002}
    assert last["SHORT"] == {"L": [0, 1], "S": [0]}


def test_bounds_of_windows_may_be_named_by_the_source(bench: Bench) -> None:
    bench.execute(
        f"{ROOMS} CREATE TABLE o AS SELECT id, rooms.WINDOWSTART / 2 AS half, r.WINDOWEND AS over FROM rooms r "
        "WINDOW TUMBLING (SIZE 4 MILLISECONDS) GROUP BY id;".replace("rooms.W", "r.W")
    )
    bench.pipe(CaseRecord("rooms", 7, {"floor": 1}, 9))
    assert [one.value for one in bench.output()] == [{"HALF": 4, "OVER": 12}]


@pytest.mark.parametrize(("key", "wanted"), [("id", [5, 6]), ("id, floor", [5, 6])])
def test_the_time_of_a_result_may_be_a_column_of_its_key(bench: Bench, key: str, wanted: list[int]) -> None:
    bench.execute(
        "CREATE STREAM s (id BIGINT, floor INT) WITH (kafka_topic='s', format='JSON');"
        f"CREATE STREAM o WITH (timestamp='id') AS SELECT id, floor, 1 AS one FROM s PARTITION BY {key};"
    )
    for at in wanted:
        bench.pipe(CaseRecord("s", None, {"id": at, "floor": 1}, 99))
    assert [one.timestamp_ms for one in bench.output()] == wanted


def test_what_is_only_shown_may_be_aggregated_without_group_by(bench: Bench) -> None:
    bench.execute(ROOMS)
    bench.select("SELECT COUNT(*) AS n, MAX(floor) AS top FROM rooms EMIT CHANGES;")
    for key, floor in ((7, 1), (8, 3)):
        bench.pipe(CaseRecord("rooms", key, {"floor": floor}, 0))
    assert bench.rows() == [(1, 1), (2, 3)]
    with pytest.raises(SqlError, match="Non-aggregate SELECT expression"):
        bench.select("SELECT id, COUNT(*) FROM rooms EMIT CHANGES;")
    with pytest.raises(SqlError, match="requires a GROUP BY clause"):
        bench.execute("CREATE TABLE o AS SELECT COUNT(*) AS n FROM rooms;")


def test_rows_that_are_gone_show_their_keys_and_records_without_values_nothing(bench: Bench) -> None:
    bench.execute(
        f"{ROOMS} CREATE TABLE t (id INT PRIMARY KEY, c INT) WITH (kafka_topic='t', value_format='JSON');"
        "CREATE TABLE w AS SELECT id, SUM(floor) AS n FROM rooms WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY id "
        "HAVING SUM(floor) > 0;"
    )
    gone = [{"value": None, "key": pickle.dumps(7)}]
    of_table = planned(bench, "SELECT c, id FROM t EMIT CHANGES;")
    assert shown_rows(of_table, gone) == [(None, 7)]
    assert row_tree(shown_rows(of_table, gone)[0], of_table.kinds) == {"columns": [None, 7], "tombstone": True}
    assert shown_rows(planned(bench, "SELECT * FROM rooms EMIT CHANGES;"), gone) == []
    of_window = planned(bench, "SELECT n, id, WINDOWSTART, WINDOWEND FROM w EMIT CHANGES;")
    left = [{"value": None, "key": pickle.dumps(Windowed(7, 1000, 2000))}]
    assert shown_rows(of_window, left) == [(None, 7, 1000, 2000)]


def planned(bench: Bench, text: str) -> Planned:
    statement = parse_statement(text)
    assert isinstance(statement, tree.SelectStatement)
    return plan(bench.engine.metastore, statement.query, name="shown")


def test_fields_of_an_inserted_struct_go_by_their_names(bench: Bench) -> None:
    kind = "STRUCT<a BIGINT, b STRING, c BYTES>"
    bench.execute(
        f"CREATE STREAM s (x {kind}, l ARRAY<{kind}>, m MAP<STRING, {kind}>) "
        "WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;"
        "INSERT INTO s VALUES "
        "(STRUCT(b := 'x', a := 1), ARRAY[STRUCT(b := 'y')], MAP('k' := STRUCT(c := 'AQ==', a := 2)));"
    )
    assert bench.output()[-1].value == {
        "X": {"A": 1, "B": "x", "C": None},
        "L": [{"A": None, "B": "y", "C": None}],
        "M": {"k": {"A": 2, "B": None, "C": "AQ=="}},
    }
    with pytest.raises(SqlError, match=r"Expected type STRUCT.* for field X but got STRUCT<`D` INTEGER>"):
        bench.execute("INSERT INTO s (x) VALUES (STRUCT(d := 1));")


def test_a_key_that_is_an_empty_text_is_one(bench: Bench) -> None:
    bench.execute(
        "CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON');"
        "CREATE STREAM o AS SELECT * FROM s;"
    )
    assert piped(bench, "s", ("", {"v": 1}), (None, {"v": 2})) == [("", {"V": 1}), (None, {"V": 2})]
