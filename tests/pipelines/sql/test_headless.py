"""A server that runs a file of statements and takes no others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import Node
from tests.support.sql_server import SqlServer

STATEMENTS = """
-- what is defined in a file
SET 'auto.offset.reset'='earliest';
CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);
CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
INSERT INTO s VALUES ('a', 1);
INSERT INTO s VALUES ('a', 2);
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


def test_a_file_of_statements_is_run_and_no_others_are_taken(node: Node, tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(STATEMENTS)
    server = SqlServer(node.bootstrap_servers, tmp_path, ksql_queries_file=str(tmp_path / "queries.sql")).start()
    try:
        assert server.rows("SELECT * FROM s;") == [["a", 1], ["a", 2]]
        assert server.rows("SELECT v FROM t WHERE id = 'a';") == [[2]]
        status, text = server.ask("/ksql", {"ksql": "DROP STREAM s;"})
        assert status == 503
        assert json.loads(text)["message"] == "The server runs a file of queries and takes no statements."
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ("SHOW STREAMS; SELCT 1;", "queries.sql: a file of queries does not take this statement: SHOW STREAMS;"),
        ("CREATE STREAM s (v INT) WITH (kafka_topic='none', value_format='JSON');", "Topic 'none' does not exist."),
    ],
)
def test_a_file_that_is_wrong_ends_the_start_with_a_sentence(
    node: Node, tmp_path: Path, statements: str, told: str
) -> None:
    (tmp_path / "queries.sql").write_text(statements)
    server = SqlServer(node.bootstrap_servers, tmp_path, ksql_queries_file=str(tmp_path / "queries.sql"))
    try:
        with pytest.raises(AssertionError):
            server.start()
    finally:
        server.stop()
    assert told in server.log()
    assert "Traceback" not in server.log()
