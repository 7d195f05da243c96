"""What users get wrong, and the sentence for it. Nothing is changed by a statement that is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.runner import Bench, CaseRecord

SOURCES = """
CREATE STREAM s (id STRING KEY, v INT, t STRING) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE u (id STRING PRIMARY KEY, name STRING) WITH (kafka_topic='u', value_format='JSON');
CREATE STREAM big AS SELECT * FROM s WHERE v > 1;
CREATE TABLE n AS SELECT id, COUNT(*) AS n, MIN(v) AS m FROM s GROUP BY id;
"""
REFUSED = {
    "CREATE STREAM x AS SELECT id, v + t AS a FROM s;": "Unsupported arithmetic types. INTEGER + STRING",
    "CREATE STREAM x AS SELECT * FROM s WHERE v;": "Type error in WHERE expression: Should evaluate to boolean but",
    "CREATE STREAM x AS SELECT * FROM s WHERE v = 'a';": "Cannot compare INTEGER to STRING with EQUAL.",
    "CREATE STREAM x AS SELECT id, LPAD(v) FROM s;": "Function 'LPAD' does not accept parameters (INTEGER).",
    "CREATE STREAM x AS SELECT id, vv FROM s;": "line 1:31: Column 'VV' cannot be resolved. Did you mean 'V'?",
    "CREATE STREAM x AS SELECT s.id FROM s JOIN u ON s.id = w.id;": "line 1:56: 'W' is not a valid stream/table name",
    "CREATE STREAM x AS SELECT s.id FROM s JOIN u ON s.v = u.id;": "Invalid join condition: types don't match.",
    "CREATE STREAM x AS SELECT s.id FROM s JOIN big ON s.id = big.id;": "Stream-Stream joins must have a WITHIN",
    "CREATE STREAM x AS SELECT v FROM s;": "Key missing from projection.",
    "CREATE TABLE x AS SELECT * FROM s;": "Invalid result type. Your SELECT query produces a STREAM.",
    'CREATE STREAM "" AS SELECT * FROM s;': "line 1:15: the name of a stream can't be empty",
    "CREATE STREAM x (a INT) WITH (kafka_topik='x', value_format='JSON');": "Invalid config variable(s) in the WITH",
    "CREATE FUNCTION f(x INT) RETURNS INT AS 'no_such_module:f';": "Function F cannot be made of 'no_such_module",
    "CREATE FUNCTION f(x INT) RETURNS INT AS 'math:nope';": "Function F cannot be made of 'math:nope': module 'math'",
    "DROP STREAM s;": "Cannot drop S.\nThe following streams and/or tables read from this source: [BIG, N].\nYou need",
    "DROP TABLE s;": "Incompatible data source type is STREAM, but statement was DROP TABLE",
    "ALTER STREAM big ADD COLUMN z INT;": "ALTER command is not supported for CREATE ... AS statements.",
    "TERMINATE CSAS_BIGG_2;": "Unknown queryId: CSAS_BIGG_2. Did you mean 'CSAS_BIG_2'?",
    "INSERT INTO s VALUES ('a', 'x', 'y');": "Expected type INTEGER for field V but got STRING: 'x'",
    "INSERT INTO s VALUES ('a', STRUCT(p := 1.50, q := ARRAY['x']), 'y');": (
        "Expected type INTEGER for field V but got STRUCT<`P` DECIMAL(3, 2), `Q` ARRAY<STRING>>: {P=1.50, Q=['x']}"
    ),
    "CREATE STREAM x (a VARCHAR(KEY)) WITH (kafka_topic='x', value_format='JSON');": (
        "line 1:28: mismatched input 'KEY', expecting the greatest length."
    ),
    "CREATE STREAM x AS SELECT id, 1.8E308 AS w FROM s;": "line 1:31: Number overflows DOUBLE: 1.8E308",
    "CREATE TABLE x AS SELECT id, SUMM(v) AS w FROM s GROUP BY id;": (
        "Can't find any functions with the name 'SUMM'. Did you mean 'SUM'?"
    ),
    "CREATE STREAM x AS SELECT id, LATEST_BY_OFSET(v) AS w FROM s;": (
        "Can't find any functions with the name 'LATEST_BY_OFSET'. Did you mean 'LATEST_BY_OFFSET'?"
    ),
    "CREATE STREAM x AS SELECT * FROM w1 JOIN w2 WITHIN 1 MINUTE ON w1.id = w2.id;": (
        "Implicit repartitioning of windowed sources is not supported: windows of W1 have 5000 ms, those of W2 2000 ms"
    ),
    "CREATE STREAM x (id STRING KEY, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS, i BYTES HEADER('i'))"
    " WITH (kafka_topic='x', value_format='JSON');": "Schema already contains a HEADERS column.",
    "CREATE STREAM x (h BYTES HEADER('i'), i BYTES HEADER('i')) WITH (kafka_topic='x', value_format='JSON');": (
        "Schema already contains a HEADER('i') column."
    ),
    "ALTER STREAM s ADD COLUMN v INT;": (
        "Cannot add column `V` to schema. A column with the same name already exists."
    ),
    # What would change the meaning of a query that runs.
    "CREATE OR REPLACE STREAM s (v INT KEY) WITH (kafka_topic='s', value_format='JSON');": (
        "Cannot upgrade data source: DataSource 'S' must keep its columns in order, new ones come last. (Key columns "
        "must be identical. The following key columns are changed, missing or reordered: [`ID` STRING KEY])"
    ),
    "CREATE OR REPLACE STREAM s (id STRING KEY, v STRING) WITH (kafka_topic='s', value_format='JSON');": (
        "Cannot upgrade data source: DataSource 'S' must keep its columns in order, new ones come last. "
        "(The following columns are changed, missing or reordered: [`V` INTEGER"
    ),
    "CREATE OR REPLACE STREAM big WITH (value_format='DELIMITED') AS SELECT * FROM s WHERE v > 1;": (
        "Cannot upgrade data source: DataSource 'BIG' has value format = JSON, which cannot be upgraded to DELIMITED"
    ),
    "CREATE OR REPLACE TABLE n AS SELECT id, COUNT(*) AS n, MIN(v) AS m FROM s WHERE v > 0 GROUP BY id;": (
        "Cannot upgrade query CTAS_N_3: the new one has other steps, and its state cannot go on."
    ),
    "CREATE OR REPLACE TABLE n AS SELECT id, COUNT(*) AS n, MAX(v) AS m FROM s GROUP BY id;": (
        "Cannot upgrade query CTAS_N_3: its aggregates would change, and its state cannot go on."
    ),
    "CREATE OR REPLACE TABLE n AS SELECT id, COUNT(*) AS n, MIN(v) AS m FROM big GROUP BY id;": (
        "Cannot upgrade query CTAS_N_3: its sources would change, and its state cannot go on."
    ),
}


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.execute(SOURCES)
    for name, seconds in (("w1", 5), ("w2", 2)):
        made.execute(
            f"CREATE STREAM {name} (id STRING KEY, v INT) WITH (kafka_topic='{name}', value_format='JSON', "
            f"window_type='TUMBLING', window_size='{seconds} SECONDS');"
        )
    yield made
    made.close()


@pytest.mark.parametrize("text", REFUSED)
def test_a_sentence_and_nothing_else(bench: Bench, text: str) -> None:
    before = dict(bench.engine.metastore.sources)
    with pytest.raises(SqlError) as refused:
        bench.execute(text)
    assert refused.value.message.startswith(REFUSED[text])
    assert bench.engine.metastore.sources == before
    assert set(bench.engine.queries) == {"CSAS_BIG_2", "CTAS_N_3"}


def test_a_filter_may_change_while_the_query_goes_on(bench: Bench) -> None:
    bench.execute("CREATE OR REPLACE STREAM big AS SELECT * FROM s WHERE v > 10;")
    for value in (5, 11):
        bench.pipe(CaseRecord("s", "a", {"v": value}, 0))
    assert [one.value["V"] for one in bench.output() if one.topic == "BIG"] == [11]
