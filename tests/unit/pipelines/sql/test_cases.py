"""Files of test cases mean what they mean to ksqlDB's test runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main

STREAM = "CREATE STREAM s (id STRING KEY, v {kind}, h ARRAY<STRUCT<key STRING, value BYTES>> HEADERS)"
STREAM += " WITH (kafka_topic='s', value_format='{form}');"
QUERY = "CREATE STREAM o AS SELECT id, v FROM s;"


def run(
    path: Path, statements: str, inputs: list[dict[str, Any]] | None, outputs: list[dict[str, Any]]
) -> tuple[str, ...]:
    """Arguments with which the tool is called."""
    (path / "a.sql").write_text(statements)
    (path / "o.json").write_text(json.dumps({"outputs": outputs}))
    arguments = ["-s", str(path / "a.sql"), "-o", str(path / "o.json")]
    if inputs is not None:
        (path / "i.json").write_text(json.dumps({"inputs": inputs}))
        arguments += ["-i", str(path / "i.json")]
    return tuple(arguments)


def record(topic: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "key": "a", "value": value} | more


def test_headers_are_in_base64_and_are_compared_where_they_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statements = STREAM.format(kind="INT", form="JSON") + "CREATE STREAM o AS SELECT id, h FROM s;"
    headers = [{"KEY": "k", "VALUE": "IQ=="}, {"KEY": "none", "VALUE": None}]
    given = [record("s", {"v": 1}, headers=headers)]
    wanted = record("O", {"H": headers}, headers=headers)
    assert main(["ksql-test-runner", *run(tmp_path, statements, given, [wanted])]) == 0
    assert main(["ksql-test-runner", *run(tmp_path, statements, given, [wanted | {"headers": []}])]) == 1
    wrong = [record("s", {"v": 1}, headers=[{"KEY": "k", "VALUE": "no base64"}])]
    assert main(["ksql-test-runner", *run(tmp_path, statements, wrong, [wanted])]) == 1
    assert "base64, or null" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("kind", "form", "given", "wanted", "code"),
    [
        ("INT", "JSON", 1, {"v": 1}, 0),
        ("INT", "JSON", 1, {"v": 1.5}, 1),
        ("INT", "JSON", 1, {"v": 1, "w": None}, 1),
        ("INT", "JSON", 1, {"v": True}, 1),
        ("DOUBLE", "JSON", 0.1, {"V": 0.1000000001}, 0),
        ("DOUBLE", "JSON", 0.1, {"V": 0.11}, 1),
        ("DECIMAL(4, 2)", "AVRO", "12.30", {"V": "12.30"}, 0),
        ("DECIMAL(4, 2)", "AVRO", "12.30", {"V": 12.3}, 0),
        ("DECIMAL(4, 2)", "AVRO", "12.30", {"V": "12.31"}, 1),
        ("ARRAY<STRUCT<a INT>>", "JSON", [{"a": 1}, None], {"v": [{"a": 1}, None]}, 0),
    ],
)
def test_values_are_compared_as_the_reference_does(
    tmp_path: Path, kind: str, form: str, given: Any, wanted: Any, code: int
) -> None:
    statements = STREAM.format(kind=kind, form=form) + QUERY
    arguments = run(tmp_path, statements, [record("s", {"v": given}, timestamp=7)], [record("O", wanted)])
    assert main(["ksql-test-runner", *arguments]) == code


def test_a_time_counts_if_it_is_told(tmp_path: Path) -> None:
    statements = STREAM.format(kind="INT", form="JSON") + QUERY
    for time, code in ((7, 0), (8, 1)):
        arguments = run(
            tmp_path, statements, [record("s", {"v": 1}, timestamp=7)], [record("O", {"V": 1}, timestamp=time)]
        )
        assert main(["ksql-test-runner", *arguments]) == code


def test_records_may_come_by_insert_alone_before_and_behind_the_query(tmp_path: Path) -> None:
    insert = "INSERT INTO s (rowtime, id, v) VALUES ({0}, 'a', {0});"
    statements = STREAM.format(kind="INT", form="JSON") + insert.format(1) + QUERY + insert.format(2)
    wanted = [record("O", {"V": 1}, timestamp=1), record("O", {"V": 2}, timestamp=2)]
    assert main(["ksql-test-runner", *run(tmp_path, statements, None, wanted)]) == 0


def test_a_file_of_input_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = run(tmp_path, STREAM.format(kind="INT", form="JSON") + QUERY, None, [])
    assert main(["ksql-test-runner", *arguments, "-i", str(tmp_path / "missing.json")]) == 1
    assert "missing.json" in capsys.readouterr().out


@pytest.mark.parametrize(("columns", "values"), [("", "'a', 1, NULL"), ("(id, h)", "'a', NULL")])
def test_headers_are_not_inserted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: str, values: str
) -> None:
    statements = STREAM.format(kind="INT", form="JSON") + QUERY + f"INSERT INTO s {columns} VALUES ({values});"
    assert main(["ksql-test-runner", *run(tmp_path, statements, None, [])]) == 1
    assert "Cannot insert into HEADER columns: H" in capsys.readouterr().out
