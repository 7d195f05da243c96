"""What is typed at the command line of SQL, with a client that notes what it is asked."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.sql.client import ServerUnreachable, SqlClient
from barnabas.cli.sql.session import SqlSession
from barnabas.cli.sql.tables import answer_text
from barnabas.cli.tools.ksql import in_one_line, typed

SCHEMA = '[{"header":{"queryId":"q","schema":"`A` INTEGER, `S` STRUCT<`B` STRING>"}},\n'


class NotingClient(SqlClient):
    def __init__(self) -> None:
        super().__init__("http://localhost:1")
        self.asked: list[tuple[str, str]] = []
        self.answer = [SCHEMA, '{"row":{"columns":[1,{"B":"x"}]}},\n', '{"finalMessage":"Limit Reached"}]\n']

    def execute(self, text: str, properties: dict[str, Any], variables: dict[str, str]) -> list[dict[str, Any]]:
        self.asked.append(("ksql", text.strip()))
        return []

    def lines(self, text: str, properties: dict[str, Any], variables: dict[str, str]) -> Iterator[str]:
        self.asked.append(("query", text.strip()))
        yield from self.answer


@pytest.fixture
def client() -> NotingClient:
    return NotingClient()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def session(client: NotingClient, out: io.StringIO) -> SqlSession:
    return SqlSession(client, out)


def type_lines(session: SqlSession, text: str) -> str:
    """What is still to be ended after these lines."""
    waiting = ""
    for line in text.splitlines():
        waiting = typed(session, waiting, line)
    return waiting


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SHOW STREAMS;", [("ksql", "SHOW STREAMS;")]),
        ("SELECT *\n FROM s\nEMIT CHANGES;   -- goes on until Ctrl-C", [("query", "SELECT *\n FROM s\nEMIT CHANGES;")]),
        ("-- first a comment\nSHOW TABLES;", [("ksql", "SHOW TABLES;")]),
        ("/* what\nfor; */ SELECT * FROM s;", [("query", "/* what\nfor; */ SELECT * FROM s;")]),
        ("INSERT INTO s VALUES ('a;\nb');", [("ksql", "INSERT INTO s VALUES ('a;\nb');")]),
        ("SHOW STREAMS; SHOW TABLES;", [("ksql", "SHOW STREAMS;"), ("ksql", "SHOW TABLES;")]),
        ("WITH x AS (SELECT 1) SELECT * FROM x;", [("query", "WITH x AS (SELECT 1) SELECT * FROM x;")]),
        ("DROP STREAM ${s};", [("ksql", "DROP STREAM ${s};")]),
    ],
)
def test_a_statement_is_sent_when_its_semicolon_is_typed(
    session: SqlSession, client: NotingClient, text: str, asked: list[tuple[str, str]]
) -> None:
    assert type_lines(session, text) == ""
    assert client.asked == asked


@pytest.mark.parametrize("text", ["SHOW STREAMS", "SELECT ';", "SHOW STREAMS -- ;", "/* ;", "SELECT '''it;"])
def test_a_statement_waits_for_its_semicolon(session: SqlSession, client: NotingClient, text: str) -> None:
    assert type_lines(session, text) == text
    assert client.asked == []


def test_a_letter_that_no_statement_has_is_refused_at_once(session: SqlSession, out: io.StringIO) -> None:
    assert type_lines(session, "SHOW § STREAMS;") == ""
    assert out.getvalue() == "line 1:6: unexpected character '§'\n"


def test_rows_are_shown_as_they_come(session: SqlSession, out: io.StringIO) -> None:
    session._width = 23
    type_lines(session, "SELECT a, s FROM s EMIT CHANGES LIMIT 1;")
    assert out.getvalue() == (
        "+---------+---------+\n|A        |S        |\n+---------+---------+\n"
        "|1        |{B=x}    |\nLimit Reached\nQuery terminated\n"
    )


def test_a_query_that_fails_is_told_and_the_session_goes_on(
    session: SqlSession, client: NotingClient, out: io.StringIO
) -> None:
    client.answer = [SCHEMA, '{"errorMessage":{"message":"Topic s does not exist."}}]\n']
    type_lines(session, "SELECT * FROM s EMIT CHANGES;")
    assert out.getvalue().endswith("\nTopic s does not exist.\n")
    assert session.failed


@pytest.mark.parametrize(("output", "shown"), [("JSON", '"PRICE":2.50'), ("TABULAR", "PRICE=2.50")])
def test_decimals_keep_their_scale(
    session: SqlSession, client: NotingClient, out: io.StringIO, output: str, shown: str
) -> None:
    client.answer = [SCHEMA, '{"row":{"columns":[1,{"PRICE":2.50}]}},\n', '{"finalMessage":"Query Completed"}]\n']
    session.output = output
    type_lines(session, "SELECT * FROM s;")
    assert shown in out.getvalue()


def test_a_spool_has_what_was_typed_and_what_was_shown(session: SqlSession, tmp_path: Path) -> None:
    spooled = tmp_path / "out.txt"
    type_lines(session, f"SPOOL {spooled}\nSELECT a, s\n FROM s;\nSPOOL OFF\nSHOW TABLES;")
    lines = spooled.read_text().splitlines()
    assert lines[2:4] == ["ksql> SELECT a, s", " FROM s;"]
    assert lines[-1] == "Query terminated"


def test_a_statement_of_many_lines_is_one_line_of_a_table() -> None:
    query = {
        "id": "CSAS_O_1",
        "queryType": "PERSISTENT",
        "state": "RUNNING",
        "sinks": ["O"],
        "sinkKafkaTopics": ["O"],
        "queryString": "CREATE STREAM o AS\n  SELECT *\n  FROM s;",
    }
    shown = answer_text({"@type": "queries", "queries": [query]})
    assert "| CREATE STREAM o AS SELECT * FROM s; " in shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("CREATE STREAM s -- of; mine\n  (a INT);", "CREATE STREAM s (a INT);"),
        (
            "SELECT '--', `/*` FROM s\n/* a\n b */ WHERE a = 'it''s -- so';",
            "SELECT '--', `/*` FROM s WHERE a = 'it''s -- so';",
        ),
    ],
)
def test_a_statement_is_recalled_without_its_comments(text: str, line: str) -> None:
    assert in_one_line(text) == line


@pytest.mark.parametrize("statement", ["SELECT * FROM s EMIT CHANGES;", "PRINT s;"])
def test_a_server_that_is_gone_in_the_midst_of_rows_is_told(statement: str, out: io.StringIO) -> None:
    """It ends without the last chunk, as a process that is killed."""
    row = b'[{"header":{"queryId":"q","schema":"`A` INTEGER"}},\n{"row":{"columns":[77]}},\n'

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(row), row))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        session = SqlSession(SqlClient(f"http://127.0.0.1:{listening.getsockname()[1]}"), out)
        with pytest.raises(ServerUnreachable, match="has closed the connection before the query ended"):
            session.run(statement)
        thread.join(10)
    assert "77" in out.getvalue()


def test_rows_are_shown_as_json_where_that_is_set(session: SqlSession, client: NotingClient, out: io.StringIO) -> None:
    type_lines(
        session, "SET OUTPUT JSON;\nSELECT * FROM s EMIT CHANGES LIMIT 1;\nSET OUTPUT TABULAR;\nSELECT * FROM s;"
    )
    shown = out.getvalue()
    assert '{"row":{"columns":[1,{"B":"x"}]}}' in shown
    assert (
        shown.index("Output format set to JSON") < shown.index('{"row"') < shown.index("Output format set to TABULAR")
    )
    assert "|1 " in shown[shown.index("Output format set to TABULAR") :]
    assert [kind for kind, _ in client.asked] == ["query", "query"]
