"""Pull queries by key that look alike: they are compiled once, and see every committed change."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from barnabas.cli.main import main
from barnabas.testing import Node
from tests.support.sql_server import SqlServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with Node() as node:
        wanted = {"ksql_logging_processing_stream_auto_create": "true"}
        started = SqlServer(node.bootstrap_servers, tmp_path_factory.mktemp("sql"), **wanted).start()
        yield started
        started.stop()


def test_a_pull_sees_what_was_written_before_it_and_its_like_is_as_right(server: SqlServer) -> None:
    server.run(
        "CREATE TABLE t (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON', partitions=2);"
    )
    for number in range(5):
        server.run(f"INSERT INTO t VALUES ('a', {number});")
        server.run(f"INSERT INTO t VALUES ('b', {-number});")
        assert server.rows("SELECT id, v + 1 AS w FROM t WHERE id = 'a';") == [["a", number + 1]]
        assert server.rows("SELECT id, v + 1 AS w FROM t WHERE id = 'b';") == [["b", 1 - number]]
        assert server.rows("SELECT id, v + 1 AS w FROM t WHERE id = 'it''s';") == []
        assert server.rows("SELECT id FROM t WHERE v = 4;") == ([["a"]] if number == 4 else [])


def test_a_table_that_was_made_anew_has_new_columns(server: SqlServer) -> None:
    for columns, expected in (("v INT", ["k", 1]), ("w STRING", ["k", "x"])):
        properties = "kafka_topic='n', value_format='JSON', partitions=1"
        server.run(f"CREATE TABLE n (id STRING PRIMARY KEY, {columns}) WITH ({properties});")
        value = "1" if expected[1] == 1 else "'x'"
        server.run(f"INSERT INTO n VALUES ('k', {value});")
        for _ in range(2):
            assert server.rows("SELECT * FROM n WHERE id = 'k';") == [expected]
        server.run("DROP TABLE n;")
    status, text = server.ask("/query-stream", {"sql": "SELECT * FROM n WHERE id = 'k';"})
    assert (status, json.loads(text)["message"][:17]) == (400, "N does not exist.")


def test_keys_that_are_numbers_and_a_topic_that_is_gone(server: SqlServer) -> None:
    server.run(
        "CREATE TABLE i (id BIGINT PRIMARY KEY, v INT) WITH (kafka_topic='i', value_format='JSON', partitions=1);"
    )
    server.run("INSERT INTO i VALUES (7, 1);")
    for _ in range(2):
        assert server.rows("SELECT v FROM i WHERE id = 7;") == [[1]]
        assert server.rows("SELECT v FROM i WHERE id = 8;") == []
        assert server.ask("/query-stream", {"sql": "SELECT v FROM i WHERE id = '7';"})[0] == 400


def test_many_at_once_share_their_questions_and_none_is_behind(server: SqlServer) -> None:
    server.run(
        "CREATE TABLE m (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='m', value_format='JSON', partitions=1);"
    )
    wrong: list[str] = []

    def write_and_read(name: str) -> None:
        for number in range(10):
            server.run(f"INSERT INTO m VALUES ('{name}', {number});")
            found = server.rows(f"SELECT v FROM m WHERE id = '{name}';")
            if found != [[number]]:
                wrong.append(f"{name}: {found} instead of {number}")

    threads = [threading.Thread(target=write_and_read, args=(f"k{number}",)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(100)
    assert wrong == []


def test_a_table_as_of_an_earlier_time(server: SqlServer) -> None:
    server.run(
        "CREATE TABLE past (id STRING PRIMARY KEY, v INT) WITH (kafka_topic='past', value_format='JSON', partitions=2);"
        "CREATE STREAM st (v INT) WITH (kafka_topic='past', value_format='JSON');"
    )
    for at, key, value in ((1000, "a", 1), (2000, "b", 2), (3000, "a", 3)):
        server.run(f"INSERT INTO past (ROWTIME, id, v) VALUES ({at}, '{key}', {value});")
    assert sorted(server.rows("SELECT * FROM past AS OF 2000;")) == [["a", 1], ["b", 2]]
    assert server.rows("SELECT v FROM past AS OF '1970-01-01T00:00:02.999' WHERE id = 'a';") == [[1]]
    assert server.rows("SELECT v FROM past AS OF 3000 WHERE id = 'a';") == [[3]]
    assert server.rows("SELECT * FROM past AS OF 999;") == []
    for text, sentence in (
        ("SELECT * FROM past AS OF 'noon';", "AS OF 'noon' is no time"),
        ("SELECT * FROM st AS OF 1000;", "AS OF is for pull queries of one table"),
        ("SELECT * FROM past AS OF 1000 EMIT CHANGES;", "AS OF is for pull queries of one table"),
    ):
        status, answer = server.ask("/query-stream", {"sql": text})
        assert (status, json.loads(answer)["message"].startswith(sentence)) == (400, True), answer


def test_nothing_is_inserted_where_the_topic_is_gone(server: SqlServer) -> None:
    server.run("CREATE STREAM g (v INT) WITH (kafka_topic='g', value_format='JSON', partitions=2);")
    assert main(["topics", "--bootstrap-server", server.settings["bootstrap.servers"], "--delete", "--topic", "g"]) == 0
    for path, body in (("/ksql", {"ksql": "INSERT INTO g VALUES (1);"}), ("/query", {"ksql": "SELECT * FROM g;"})):
        status, answer = server.ask(path, body)
        assert (status, json.loads(answer)["message"][:27]) == (400, "Topic g of G does not exist"[:27]), answer


def test_the_processing_log_is_a_stream_where_the_settings_say_so(server: SqlServer) -> None:
    (described,) = server.run("DESCRIBE ksql_processing_log;")
    fields = [one["name"] for one in described["sourceDescription"]["fields"]]
    assert fields == ["LOGGER", "LEVEL", "TIME", "MESSAGE"]
    line = "INSERT INTO ksql_processing_log (level, message) VALUES ('ERROR', STRUCT(type := 0, deserializationError :="
    server.run(
        f"{line} STRUCT(target := 'value', errorMessage := 'x', recordB64 := '', cause := ARRAY['y'], topic := 't')));"
    )
    found = server.rows("SELECT message->deserializationError->errorMessage AS said FROM ksql_processing_log;")
    assert found == [["x"]]
