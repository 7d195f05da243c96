"""Every statement and clause of the dialect, once: it is parsed, planned, and the queries among them get a record."""

from __future__ import annotations

import pytest

from barnabas.pipelines.sql.compute.aggregates import AGGREGATES, TABLE_FUNCTIONS
from barnabas.pipelines.sql.compute.compiler import LAMBDA_FUNCTIONS
from barnabas.pipelines.sql.compute.registry import all_functions
from barnabas.pipelines.sql.engine import DEFINING
from barnabas.pipelines.sql.formats.codecs import FORMATS
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.runner import Bench, CaseRecord

SOURCES = """
CREATE TYPE address AS STRUCT<street STRING, zip INT>;
CREATE STREAM s (id STRING KEY, v INT, w DOUBLE, t STRING, ts TIMESTAMP, d DATE, ti TIME, b BYTES, a ARRAY<INT>,
  m MAP<STRING, INT>, home address, dec DECIMAL(6, 2)) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM r (id STRING KEY, x INT) WITH (kafka_topic='r', value_format='JSON');
CREATE TABLE u (id STRING PRIMARY KEY, name STRING, other STRING) WITH (kafka_topic='u', value_format='JSON');
CREATE TABLE o (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic='o', value_format='JSON');
CREATE STREAM h (id STRING KEY, v INT, one BYTES HEADER('k')) WITH (kafka_topic='h', value_format='JSON');
"""
RECORD = {
    "v": 3,
    "w": 1.5,
    "t": "text",
    "ts": 86_400_000,
    "d": 1,
    "ti": 1,
    "b": "YQ==",
    "a": [3, 1],
    "m": {"k": 2},
    "home": {"street": "x", "zip": 7},
    "dec": 12.3,
}

# A query, and the rows it gives for one record in each source: a, of s and r and u and o.
QUERIES = {
    "SELECT id, v FROM s": 1,
    "SELECT * FROM s": 1,
    "SELECT s.* FROM s": 1,
    "SELECT id, home->* FROM s": 1,
    "SELECT id, home->street AS st, a[1] AS first, a[-1] AS last, m['k'] AS k FROM s": 1,
    "SELECT id, ROWTIME AS at, ROWPARTITION AS p, ROWOFFSET AS o FROM s": 1,
    "SELECT id, CASE WHEN v > 2 THEN 'big' ELSE 'small' END AS size, CASE v WHEN 3 THEN 'x' END AS y FROM s": 1,
    "SELECT id, CAST(v AS STRING) AS c, v + 1 AS p, v * 2 % 3 AS q, -v AS n, 'it''s' AS quoted FROM s": 1,
    "SELECT id, TRANSFORM(a, x => x + 1) AS t1, FILTER(m, (k, v) => v > 1) AS f, REDUCE(a, 0, (s, x) => s + x) AS r1"
    " FROM s": 1,
    "SELECT id, ARRAY[1, v] AS xs, MAP('k' := v) AS ms, STRUCT(f := v) AS st FROM s": 1,
    "SELECT id, TIMESTAMPADD(DAYS, 1, ts) AS l, DATEADD(DAYS, 1, d) AS n, TIMESUB(SECONDS, 1, ti) AS b4 FROM s": 1,
    "SELECT id, EXPLODE(a) AS one FROM s": 2,
    "SELECT id, v FROM s WHERE v BETWEEN 1 AND 5 AND NOT v IN (7, 8) AND t LIKE 't%' AND t LIKE 't!%' ESCAPE '!'": 0,
    "SELECT id, v FROM s WHERE v IS NOT NULL AND v IS DISTINCT FROM 4 AND v IS NOT DISTINCT FROM 3": 1,
    "SELECT id, v FROM s WHERE (v > 2 OR v < 0) AND v <> 5 AND v != 6": 1,
    "SELECT v, id, w FROM s PARTITION BY v": 1,
    "SELECT s.id, x, v FROM s JOIN r WITHIN 1 HOUR ON s.id = r.id": None,
    "SELECT s.id, v, x FROM s LEFT JOIN r WITHIN (1 MINUTE, 2 MINUTES) GRACE PERIOD 1 MINUTE ON s.id = r.id": None,
    "SELECT ROWKEY, v, x FROM s FULL OUTER JOIN r WITHIN 1 HOUR ON s.id = r.id": None,
    "SELECT s.id, v, x FROM s RIGHT JOIN r WITHIN 1 HOUR ON s.id = r.id": None,
    "SELECT s.id, v, name FROM s JOIN u ON s.id = u.id": None,
    "SELECT s.id, v, name FROM s LEFT JOIN u ON s.id = u.id": None,
    "SELECT s.id, v, u.name, o.name FROM s JOIN u ON s.id = u.id JOIN o ON s.id = o.id": None,
    "SELECT h.id, v, one FROM h": 0,
}
TABLES = {
    "SELECT id, COUNT(*) AS n FROM s GROUP BY id": 1,
    "SELECT id, COUNT(*) AS n FROM s WHERE v > 0 GROUP BY id HAVING COUNT(*) > 0": 1,
    "SELECT v, id, COUNT(*) AS n FROM s GROUP BY (v, id)": 1,
    "SELECT id, SUM(v) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id": 1,
    "SELECT id, SUM(v) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE, RETENTION 1 DAY, GRACE PERIOD 10 SECONDS)"
    " GROUP BY id": 1,
    "SELECT id, SUM(v) AS n, WINDOWSTART AS ws, WINDOWEND AS we FROM s WINDOW HOPPING (SIZE 2 MINUTES,"
    " ADVANCE BY 1 MINUTE) GROUP BY id": None,
    "SELECT id, SUM(v) AS n FROM s WINDOW SESSION (30 SECONDS) GROUP BY id": 1,
    "SELECT id, SUM(v) AS n FROM s WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY id EMIT FINAL": 0,
    "SELECT id, name FROM u": 1,
    "SELECT id, name FROM u WHERE name = 'x'": None,
    "SELECT u.id, u.name, o.name FROM u JOIN o ON u.id = o.id": None,
    "SELECT u.id, u.name, o.name FROM u LEFT JOIN o ON u.id = o.id": None,
    "SELECT ROWKEY, u.name, o.name FROM u FULL OUTER JOIN o ON u.id = o.id": None,
    "SELECT u.id, u.name, o.name FROM u JOIN o ON u.other = o.id": None,
    "SELECT name, COUNT(*) AS n FROM u GROUP BY name": 1,
}
STATEMENTS = {
    "CREATE SOURCE STREAM z (id STRING KEY, v INT) WITH (kafka_topic='z', value_format='JSON');": tree.CreateSource,
    "CREATE SOURCE TABLE z (id STRING PRIMARY KEY) WITH (kafka_topic='z', value_format='JSON');": tree.CreateSource,
    "CREATE OR REPLACE STREAM r (id STRING KEY, x INT, y INT) WITH (kafka_topic='r', value_format='JSON');": (
        tree.CreateSource
    ),
    "CREATE STREAM IF NOT EXISTS s (a INT) WITH (kafka_topic='s', value_format='JSON');": tree.CreateSource,
    "CREATE STREAM z (v INT, every ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) "
    "WITH (kafka_topic='z', value_format='JSON');": None,
    "CREATE STREAM z (v STRING) WITH (kafka_topic='z', value_format='DELIMITED', value_delimiter='TAB');": (
        tree.CreateSource
    ),
    "CREATE STREAM z (v BIGINT, at STRING) WITH (kafka_topic='z', format='JSON', partitions=3, replicas=1,"
    " timestamp='at', timestamp_format='yyyy-MM-dd');": tree.CreateSource,
    "CREATE STREAM z (v BIGINT) WITH (kafka_topic='z', value_format='JSON', wrap_single_value=false);": (
        tree.CreateSource
    ),
    "CREATE TABLE z (id STRING PRIMARY KEY, n BIGINT) WITH (kafka_topic='z', value_format='JSON',"
    " window_type='TUMBLING', window_size='1 MINUTE');": tree.CreateSource,
    "CREATE OR REPLACE TABLE z AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;": tree.CreateAs,
    "CREATE STREAM z WITH (kafka_topic='zz', value_format='AVRO', partitions=2) AS SELECT * FROM s;": tree.CreateAs,
    "INSERT INTO r SELECT id, v AS x FROM s;": tree.InsertSelect,
    "INSERT INTO r WITH (query_id='mine') SELECT id, v AS x FROM s;": tree.InsertSelect,
    "INSERT INTO r (id, x) VALUES ('a', 1 + 1);": tree.InsertValues,
    "INSERT INTO r VALUES ('a', NULL);": tree.InsertValues,
    "DROP STREAM r;": tree.DropSource,
    "DROP STREAM IF EXISTS nope;": tree.DropSource,
    "DROP TABLE o DELETE TOPIC;": tree.DropSource,
    "ALTER STREAM r ADD COLUMN y INT, ADD COLUMN z STRING;": tree.AlterSource,
    "ALTER TABLE o ADD COLUMN y INT;": tree.AlterSource,
    "ALTER SYSTEM 'auto.offset.reset' = 'earliest';": tree.SetProperty,
    "CREATE TYPE IF NOT EXISTS address AS INT;": tree.CreateType,
    "DROP TYPE address;": tree.DropType,
    "DROP TYPE IF EXISTS nope;": tree.DropType,
    "CREATE FUNCTION twice(x INT) RETURNS INT AS 'operator:neg';": tree.CreateFunction,
    "CREATE SOURCE CONNECTOR c WITH ('connector.class' = 'x', 'tasks.max' = '1');": tree.CreateConnector,
    "CREATE SINK CONNECTOR IF NOT EXISTS `c` WITH ('connector.class' = 'x');": tree.CreateConnector,
    "DROP CONNECTOR IF EXISTS c;": tree.DropConnector,
    "SHOW STREAMS;": tree.Show,
    "LIST TABLES EXTENDED;": tree.Show,
    "SHOW TOPICS;": tree.Show,
    "SHOW ALL TOPICS;": tree.Show,
    "SHOW QUERIES EXTENDED;": tree.Show,
    "SHOW FUNCTIONS;": tree.Show,
    "SHOW PROPERTIES;": tree.Show,
    "SHOW TYPES;": tree.Show,
    "SHOW VARIABLES;": tree.Show,
    "SHOW CONNECTORS;": tree.Show,
    "SHOW SOURCE CONNECTORS;": tree.Show,
    "SHOW SINK CONNECTORS;": tree.Show,
    "SHOW CONNECTOR PLUGINS;": tree.Show,
    "DESCRIBE s;": tree.Describe,
    "DESCRIBE s EXTENDED;": tree.Describe,
    "DESCRIBE EXTENDED s;": tree.Describe,
    "DESCRIBE STREAMS;": tree.Describe,
    "DESCRIBE TABLES EXTENDED;": tree.Describe,
    "DESCRIBE FUNCTION LEFT;": tree.Describe,
    "DESCRIBE CONNECTOR c;": tree.Describe,
    "EXPLAIN CTAS_X_1;": tree.Explain,
    "EXPLAIN SELECT * FROM s EMIT CHANGES;": tree.Explain,
    "EXPLAIN SELECT * FROM s EMIT CHANGES ON LAST 1000;": tree.Explain,
    "PRINT s;": tree.Print,
    "PRINT 's' FROM BEGINNING INTERVAL 2 LIMIT 3;": tree.Print,
    "TERMINATE CSAS_X_1;": tree.QueryAction,
    "TERMINATE ALL;": tree.QueryAction,
    "PAUSE ALL;": tree.QueryAction,
    "RESUME CSAS_X_1;": tree.QueryAction,
    "SET 'auto.offset.reset' = 'earliest';": tree.SetProperty,
    "UNSET 'auto.offset.reset';": tree.SetProperty,
    "DEFINE x = 'y';": tree.Define,
    "UNDEFINE x;": tree.Define,
    "ASSERT TOPIC s WITH (partitions=1) TIMEOUT 3 SECONDS;": tree.Assert,
    "ASSERT NOT EXISTS TOPIC s;": tree.Assert,
    "ASSERT SCHEMA SUBJECT 's-value' ID 3 TIMEOUT 1 SECOND;": tree.Assert,
    "ASSERT NOT EXISTS SCHEMA ID 3;": tree.Assert,
    "RUN SCRIPT 'x.sql';": tree.RunScript,
    "SELECT * FROM u WHERE id = 'a';": tree.SelectStatement,
    "SELECT * FROM u LIMIT 3;": tree.SelectStatement,
    "SELECT * FROM u AS OF '2026-01-01T00:00:00' WHERE id = 'a';": tree.SelectStatement,
    "SELECT 1st FROM s EMIT CHANGES LIMIT 3;": tree.SelectStatement,
    "SELECT ts AT TIME ZONE 'UTC' FROM s EMIT CHANGES;": None,
    "SELECT * FROM u ORDER BY id;": tree.BatchSelect,
    "SELECT * FROM (SELECT id FROM u) x;": tree.BatchSelect,
    "WITH x AS (SELECT id FROM u) SELECT * FROM x;": tree.BatchSelect,
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v) FROM s;": tree.BatchSelect,
    "SELECT * FROM s JOIN parquet.`/x` p ON s.id = p.id;": tree.BatchSelect,
}
NAMES = [
    "KEY",
    "TYPE",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "STRING",
    "TOPIC",
    "TOPICS",
    "STREAMS",
    "TABLES",
    "QUERY",
    "QUERIES",
    "ROW",
    "STRUCT",
    "MAP",
    "ARRAY",
    "COLUMN",
    "COLUMNS",
    "CONNECTOR",
    "CONNECTORS",
    "TYPES",
    "VARIABLES",
    "VARIABLE",
    "PROPERTIES",
    "SCRIPT",
    "SOURCE",
    "SINK",
    "SESSION",
    "SIZE",
    "GRACE",
    "PERIOD",
    "RETENTION",
    "CHANGES",
    "FINAL",
    "BEGINNING",
    "INTERVAL",
    "YEAR",
    "MONTH",
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "YEARS",
    "MONTHS",
    "DAYS",
    "HOURS",
    "MINUTES",
    "SECONDS",
    "MILLISECONDS",
    "PRIMARY",
    "REPLACE",
    "IF",
    "ZONE",
    "AT",
    "PLUGINS",
    "HEADERS",
    "HEADER",
    "SYSTEM",
    "TIMEOUT",
    "SCHEMA",
    "SUBJECT",
    "DEFINE",
    "UNDEFINE",
    "FUNCTIONS",
    "FUNCTION",
    "CHANGE",
    "SAMPLE",
    "TO",
    "RENAME",
    "EXPORT",
    "CATALOG",
    "PAUSE",
    "RESUME",
    "ACTION",
]


@pytest.fixture
def bench(sql_bench: Bench) -> Bench:
    sql_bench.execute(SOURCES)
    return sql_bench


def fed(bench: Bench) -> int:
    """Records come into all sources; how many records come out."""
    bench.pipe(CaseRecord("u", "a", {"name": "x", "other": "a"}, 1))
    bench.pipe(CaseRecord("o", "a", {"name": "y"}, 1))
    bench.pipe(CaseRecord("r", "a", {"x": 1}, 1))
    bench.pipe(CaseRecord("s", "a", RECORD, 2))
    return len(bench.output())


@pytest.mark.parametrize("query", QUERIES)
def test_a_stream_of_every_clause(bench: Bench, query: str) -> None:
    bench.execute(f"CREATE STREAM z AS {query} EMIT CHANGES;")
    found = fed(bench)
    assert found == QUERIES[query] if QUERIES[query] is not None else found >= 1


@pytest.mark.parametrize("query", TABLES)
def test_a_table_of_every_clause(bench: Bench, query: str) -> None:
    emit = "" if "EMIT" in query else " EMIT CHANGES"
    bench.execute(f"CREATE TABLE z WITH (key_format='JSON') AS {query}{emit};")
    found = fed(bench)
    assert found == TABLES[query] if TABLES[query] is not None else found >= 1


@pytest.mark.parametrize("text", STATEMENTS)
def test_every_statement_is_read_and_what_defines_is_applied(bench: Bench, text: str) -> None:
    statement = parse_statement(text, bench.engine.metastore.types)
    expected = STATEMENTS[text]
    assert expected is None or isinstance(statement, expected)
    if isinstance(statement, DEFINING) and not (isinstance(statement, tree.QueryAction) and statement.query_id):
        assert bench.engine.apply(statement, 1).message
    elif isinstance(statement, tree.InsertValues):
        bench.run(statement)


def test_words_of_the_language_are_names_too(bench: Bench) -> None:
    bench.execute(f"CREATE STREAM z AS SELECT id, {', '.join(f'v AS {name}' for name in NAMES)} FROM s;")
    bench.execute(f"CREATE STREAM zz AS SELECT id, {', '.join(NAMES)} FROM z;")
    bench.pipe(CaseRecord("s", "a", RECORD, 2))
    assert bench.output()[-1].value == dict.fromkeys(NAMES, 3)


@pytest.mark.parametrize("name", [one for one in FORMATS if one != "NONE"])
def test_every_format_is_written_and_read(bench: Bench, name: str) -> None:
    columns = "id, v" if name == "KAFKA" else "id, v, t"
    bench.execute(
        f"CREATE STREAM z_{name} WITH (value_format='{name}') AS SELECT {columns} FROM s;"
        f"CREATE STREAM zz WITH (value_format='JSON', wrap_single_value=true) AS SELECT * FROM z_{name};"
        if name == "KAFKA"
        else f"CREATE STREAM z_{name} WITH (value_format='{name}') AS SELECT {columns} FROM s;"
        f"CREATE STREAM zz WITH (value_format='JSON') AS SELECT * FROM z_{name};"
    )
    bench.pipe(CaseRecord("s", "a", RECORD, 2))
    (found,) = [one.value for one in bench.output() if one.topic == "ZZ"]
    assert found["V"] == 3


def test_all_functions_are_there() -> None:
    scalar = {*all_functions(), *LAMBDA_FUNCTIONS}
    assert len(scalar) >= 129
    assert len(AGGREGATES) >= 18
    assert set(TABLE_FUNCTIONS) == {"EXPLODE", "CUBE_EXPLODE"}
