"""The SQL server over sockets, on a node of ours and on Spark: statements, queries, the command line, a killed server.

One server serves the tests of this file in turn, each with streams of its own; the last one kills it.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings
from barnabas.client.fetcher import FetchSettings
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.spark.startup.java import JavaMissing, find_java
from barnabas.testing import Node
from tests.support.sql_server import SqlServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # processes and Spark start slowly on a busy machine
WAIT_S = 300.0


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture(scope="module")
def server(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    try:
        find_java()
    except JavaMissing as error:
        pytest.skip(str(error))
    lake = str(tmp_path_factory.mktemp("lake"))
    directory = tmp_path_factory.mktemp("sql")
    started = SqlServer(node.bootstrap_servers, directory, ksql_batch_files_directories=lake).start()
    yield started
    started.stop()


def records_of(node: Node, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """What is committed, by partition."""
    settings = ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers)
    with AssignedConsumer(settings, ConsumerSettings(fetch=FetchSettings(isolation="read_committed"))) as consumer:
        ends = consumer.offsets_at({(topic, 0): -1})
        consumer.assign({(topic, 0): -2})
        found = []
        while consumer.positions[topic, 0] < ends[topic, 0]:
            found += [(record.key, record.value) for record in consumer.poll(500)]
        return found


def test_every_change_of_a_table_is_in_its_topic_and_the_last_in_a_pull_query(node: Node, server: SqlServer) -> None:
    server.run(
        "CREATE STREAM my_stream (key STRING KEY, value INT)"
        " WITH (kafka_topic='my_stream', value_format='JSON', partitions=1);"
        "CREATE TABLE my_table AS SELECT key, LATEST_BY_OFFSET(value) AS value, AVG(value) AS average"
        " FROM my_stream GROUP BY key;"
    )
    for key, value in [("A", 2), ("A", 2), ("B", 2), ("B", 8), ("A", 5), ("A", 11), ("A", 10), ("B", 5)]:
        assert server.run(f"INSERT INTO my_stream (key, value) VALUES ('{key}', {value});") == []
    wait_until(lambda: len(records_of(node, "MY_TABLE")) == 8, "eight changes", WAIT_S)
    averages = [json.loads(value or b"")["AVERAGE"] for _, value in records_of(node, "MY_TABLE")]
    assert averages == [2.0, 2.0, 2.0, 5.0, 3.0, 5.0, 6.0, 5.0]
    assert server.rows("SELECT * FROM my_table;") == [["A", 10, 6.0], ["B", 5, 5.0]]
    assert server.rows("SELECT average FROM my_table WHERE key = 'B';") == [[5.0]]
    assert server.rows("SELECT key FROM my_table WHERE average > 5 LIMIT 3;") == [["A"]]
    assert server.rows("SELECT * FROM my_table WHERE key IN ('A', 'C');") == [["A", 10, 6.0]]


def test_a_push_query_begins_at_the_end_or_at_the_beginning(server: SqlServer) -> None:
    server.run("CREATE STREAM p (id STRING KEY, v INT) WITH (kafka_topic='p', value_format='JSON', partitions=2);")
    server.run("INSERT INTO p VALUES ('a', 1);")
    earliest = server.rows("SELECT id, v * 2 AS w FROM p EMIT CHANGES LIMIT 1;", auto_offset_reset="earliest")
    assert earliest == [["a", 2]]
    prefixed = server.rows("SELECT id FROM p EMIT CHANGES LIMIT 1;", ksql_streams_auto_offset_reset="earliest")
    assert prefixed == [["a"]]
    found: list[list[object]] = []
    body = json.dumps({"ksql": "SELECT * FROM p EMIT CHANGES LIMIT 1;"}).encode()
    headers = {"content-type": "application/vnd.ksql.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{server.url}/query", body, headers), timeout=120) as answer:
        assert json.loads(answer.readline().decode().strip("[,\n"))["header"]["schema"] == "`ID` STRING, `V` INTEGER"
        server.run("INSERT INTO p VALUES ('b', 2);")  # the query reads from where it was asked
        found = [json.loads(line.decode().strip(",]\n")) for line in answer if line.strip(b",]\n ")]
    assert found == [{"row": {"columns": ["b", 2]}}, {"finalMessage": "Limit Reached"}]
    assert sorted(server.rows("SELECT * FROM p;")) == [["a", 1], ["b", 2]]


def test_many_push_queries_run_at_once_and_end_with_their_readers(server: SqlServer) -> None:
    server.run(
        "CREATE STREAM many (id STRING KEY, v INT) WITH (kafka_topic='many', value_format='JSON', partitions=1);"
    )
    server.run("INSERT INTO many VALUES ('a', 1);")
    results: list[object] = []

    def ask() -> None:
        results.append(server.rows("SELECT v FROM many EMIT CHANGES LIMIT 1;", auto_offset_reset="earliest"))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(WAIT_S)
    assert results == [[[1]]] * 20
    wait_until(lambda: b"barnabas_sql_push_queries 0" in server.ask("/metrics")[1].encode(), "no push query", 60)


def test_statements_are_described_and_refused_as_clients_know_it(server: SqlServer) -> None:
    server.run("CREATE STREAM d (id STRING KEY, v INT) WITH (kafka_topic='d', value_format='JSON', partitions=1);")
    (extended,) = server.run("DESCRIBE d EXTENDED;")
    assert extended["sourceDescription"]["errorStats"] == "consumer-failed-messages: 0"
    (described,) = server.run("DESCRIBE d;")
    assert [one["name"] for one in described["sourceDescription"]["fields"]] == ["ID", "V"]
    assert "D" in [one["name"] for one in server.run("SHOW STREAMS;")[0]["streams"]]
    assert server.run("EXPLAIN SELECT v FROM d EMIT CHANGES;")[0]["@type"] == "queryDescription"
    status, text = server.ask("/ksql", {"ksql": "CREATE STREAM e AS SELECT nope FROM d;"})
    refusal = json.loads(text)
    assert (status, refusal["error_code"]) == (400, 40001)
    assert refusal["message"].startswith("line 1:27: Column 'NOPE' cannot be resolved.")
    status, text = server.ask("/ksql", {"ksql": "SELECT * FROM d EMIT CHANGES;"})
    assert (status, json.loads(text)["error_code"]) == (400, 40002)
    missing = "CREATE STREAM f (a INT) WITH (kafka_topic='nope', value_format='JSON');"
    status, text = server.ask("/ksql", {"ksql": missing})
    assert (status, json.loads(text)["message"][:30]) == (400, "Topic 'nope' does not exist. I")
    assert json.loads(server.ask("/info")[1])["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert json.loads(server.ask("/healthcheck")[1])["isHealthy"] is True


def test_rows_are_inserted_in_a_stream_with_acks(server: SqlServer) -> None:
    server.run("CREATE STREAM i (id STRING KEY, v INT) WITH (kafka_topic='i', value_format='JSON', partitions=1);")
    lines = ['{"target": "i"}', '{"id": "a", "v": 1}', '{"id": "b", "v": "x"}', '{"id": "c", "v": 3}']
    request = urllib.request.Request(f"{server.url}/inserts-stream", "\n".join(lines).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        acks = [json.loads(line) for line in answer]
    assert [(one["seq"], one["status"]) for one in acks] == [(0, "ok"), (1, "error"), (2, "ok")]
    assert server.rows("SELECT * FROM i;") == [["a", 1], ["c", 3]]


def test_the_command_line_shows_tables_as_people_know_them(
    server: SqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    script = tmp_path / "script.sql"
    script.write_text(
        "SET 'auto.offset.reset' = 'earliest';\nDEFINE name = 'shown';\n"
        "CREATE STREAM ${name} (id STRING KEY, v INT)\n"
        " WITH (kafka_topic='shown', value_format='JSON', partitions=1);\n"
        "INSERT INTO ${name} VALUES ('a', 1);\nSELECT * FROM ${name} EMIT CHANGES LIMIT 1;\nDESCRIBE ${name};\n"
    )
    assert main(["ksql", "-f", str(script), server.url]) == 0
    assert capsys.readouterr().out == (
        "Successfully changed local property 'auto.offset.reset' to 'earliest'.\n"
        "\n Message        \n----------------\n Stream created \n----------------\n"
        "+------------------+------------------+\n"
        "|ID                |V                 |\n"
        "+------------------+------------------+\n"
        "|a                 |1                 |\n"
        "Limit Reached\nQuery terminated\n"
        "\nName                 : SHOWN\n"
        " Field | Type                   \n"
        "--------------------------------\n"
        " ID    | VARCHAR(STRING)  (key) \n"
        " V     | INTEGER                \n"
        "--------------------------------\n"
        "For runtime statistics and query details run: DESCRIBE <Stream,Table> EXTENDED;\n"
    )
    assert main(["ksql", "-e", "PRINT shown FROM BEGINNING LIMIT 1;", server.url]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["Key format: KAFKA_STRING", "Value format: JSON or KAFKA_STRING"]
    assert printed[2].endswith(', key: a, value: {"V":1}, partition: 0')
    assert main(["ksql", "-e", "SELEC 1;", server.url]) == 1
    assert capsys.readouterr().out.startswith("line 1:1: mismatched input 'SELEC', expecting 'SELECT'")


def test_made_up_records_are_read_by_the_courses_statements(node: Node, server: SqlServer) -> None:
    for quickstart, topic in (("users", "users"), ("pageviews", "pageviews")):
        words = [f"quickstart={quickstart}", f"bootstrap-server={node.bootstrap_servers}", f"topic={topic}"]
        assert main(["ksql-datagen", *words, "format=json", "iterations=20", "printRows=false", "seed=1"]) == 0
    server.run(
        "CREATE TABLE users (userid VARCHAR PRIMARY KEY, regionid VARCHAR, gender VARCHAR)"
        " WITH (kafka_topic='users', value_format='JSON');"
        "CREATE STREAM pageviews (viewtime BIGINT, userid VARCHAR, pageid VARCHAR)"
        " WITH (kafka_topic='pageviews', value_format='JSON');"
        "CREATE STREAM enriched AS SELECT u.userid AS userid, pageid, regionid FROM pageviews p"
        " LEFT JOIN users u ON p.userid = u.userid;",
        auto_offset_reset="earliest",
    )
    wait_until(lambda: len(server.rows("SELECT * FROM enriched;")) == 20, "twenty views", WAIT_S)
    assert any(row[2] is not None for row in server.rows("SELECT * FROM enriched;"))


def test_a_select_that_streams_cannot_answer_is_answered_by_spark(server: SqlServer) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    server.run(
        "CREATE STREAM bs (id STRING KEY, v INT, st STRUCT<a INT>)"
        " WITH (kafka_topic='bs', value_format='JSON', partitions=2);"
        "CREATE TABLE bt (id STRING PRIMARY KEY, name STRING)"
        " WITH (kafka_topic='bt', value_format='JSON', partitions=1);"
        "INSERT INTO bt VALUES ('a', 'Anna'); INSERT INTO bt VALUES ('b', 'it''s');"
    )
    for number in range(4):
        server.run(f"INSERT INTO bs VALUES ('{'ab'[number % 2]}', {number}, STRUCT(a := {number}));")
    lake = server.settings["ksql.batch.files.directories"]
    pq.write_table(pa.table({"id": ["a", "b"], "city": ["Bern", "Chur"]}), f"{lake}/cities.parquet")
    assert server.rows("SELECT id, st->a AS a FROM bs ORDER BY v DESC LIMIT 2;") == [["b", 3], ["a", 2]]
    assert sorted(server.rows("SELECT name, SUM(v) FROM bs JOIN bt ON bs.id = bt.id GROUP BY name;")) == [
        ["Anna", 2],
        ["it's", 4],
    ]
    assert server.rows("SELECT COUNT(*) AS n, MAX(v) AS m FROM bs;") == [[4, 3]]
    ranked = "SELECT id, v, RANK() OVER (PARTITION BY id ORDER BY v DESC) AS n FROM bs WHERE ROWTIME > 0"
    assert sorted(server.rows(f"SELECT id, v FROM ({ranked}) WHERE n = 1;")) == [["a", 2], ["b", 3]]
    cities = f"SELECT name, city FROM bt JOIN parquet.`{lake}/cities.parquet` c ON bt.id = c.id ORDER BY city;"
    assert server.rows(cities) == [["Anna", "Bern"], ["it's", "Chur"]]
    status, text = server.ask("/query-stream", {"sql": "SELECT nope FROM bs ORDER BY v;"})
    assert (status, json.loads(text)["error_code"]) == (400, 40001)
    assert "name `NOPE` cannot be resolved" in json.loads(text)["message"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT * FROM text.`/etc/passwd`;", "`/etc/passwd` is not below a directory of ksql.batch.files.directories"),
        ("SELECT * FROM `text`.`/etc/passwd` ORDER BY 1;", "`text`.`/etc/passwd` cannot be found"),
        ("SELECT * FROM binaryfile.`/etc/passwd` ORDER BY 1;", "`BINARYFILE`.`/etc/passwd` cannot be found"),
        ("SELECT * FROM text.`{lake}/nothing` ORDER BY 1;", "Path does not exist"),
        ("SELECT java_method('java.lang.System', 'exit', 1) ORDER BY 1;", "JAVA_METHOD calls Java"),
        ("WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{lake}/w' USING csv SELECT * FROM a;", "Syntax error"),
        ("SELECT TRANSFORM(1) USING 'touch {lake}/t' AS (x STRING) FROM (SELECT 1);", "runs a program"),
    ],
)
def test_a_select_in_batch_reaches_no_files_but_those_it_may(server: SqlServer, text: str, sentence: str) -> None:
    lake = server.settings["ksql.batch.files.directories"]
    status, answer = server.ask("/query-stream", {"sql": text.replace("{lake}", lake)})
    assert (status, json.loads(answer)["error_code"]) == (400, 40001), answer
    assert sentence in json.loads(answer)["message"]
    assert [one.name for one in Path(lake).iterdir() if one.suffix != ".parquet"] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("CREATE FUNCTION sh(STRING) RETURNS INT AS 'os:system';", "Python functions of module 'os' are not called"),
        ("SET 'ksql.schema.registry.url'='http://x';", "Cannot override property 'ksql.schema.registry.url'"),
        ("ALTER SYSTEM 'ksql.connect.url'='http://x';", "Cannot override property 'ksql.connect.url'"),
        ("RUN SCRIPT '/etc/passwd';", "is no statement for a server"),
    ],
)
def test_a_statement_reaches_no_code_and_no_setting_of_the_server(server: SqlServer, text: str, sentence: str) -> None:
    status, answer = server.ask("/ksql", {"ksql": text})
    assert status == 400, answer
    assert sentence in json.loads(answer)["message"]


@pytest.fixture
def standby(node: Node, server: SqlServer, tmp_path: Path) -> Iterator[SqlServer]:
    """Another server of the same service, with the same state."""
    started = SqlServer(node.bootstrap_servers, tmp_path, ksql_state_dir=server.settings["ksql.state.dir"]).start()
    yield started
    started.stop()


def test_another_server_goes_on_where_a_killed_one_was(node: Node, server: SqlServer, standby: SqlServer) -> None:
    server.run(
        "CREATE STREAM k (id STRING KEY, v INT) WITH (kafka_topic='k', value_format='JSON', partitions=1);"
        "CREATE TABLE k_count AS SELECT id, COUNT(*) AS n FROM k GROUP BY id;"
    )
    for _ in range(5):
        server.run("INSERT INTO k VALUES ('a', 1);")
    wait_until(lambda: server.rows("SELECT n FROM k_count;") == [[5]], "five", WAIT_S)
    server.run("INSERT INTO k VALUES ('a', 1);")
    server.kill()
    server = standby
    names = [one["name"] for one in server.run("SHOW TABLES;")[0]["tables"]]
    assert "K_COUNT" in names
    for _ in range(4):
        server.run("INSERT INTO k VALUES ('a', 1);")
    wait_until(lambda: server.rows("SELECT n FROM k_count;") == [[10]], "ten", WAIT_S)
    counts = [json.loads(value or b"")["N"] for _, value in records_of(node, "K_COUNT")]
    assert counts == list(range(1, 11))
    server.run("TERMINATE ALL;")
    assert server.run("SHOW QUERIES;")[0]["queries"] == []
