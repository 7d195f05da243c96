"""Tests in SQL alone: what passes, and what is told of those that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.scripts import scripts_in, tried

SETUP = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');\n"
    "CREATE TABLE large AS SELECT * FROM t WHERE v > 10;\n"
    "INSERT INTO t (rowtime, id, v) VALUES (3, 1, 50);\n"
    "INSERT INTO t (rowtime, id, v) VALUES (4, 1, 5);\n"
)


def written(directory: Path, text: str) -> Path:
    path = directory / "one.sql"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "asserts",
    [
        "ASSERT VALUES large (rowtime, id, v) VALUES (3, 1, 50);\nASSERT NULL VALUES large (id) KEY (1);",
        "ASSERT VALUES large (v) VALUES (50); ASSERT NULL VALUES large (rowtime, id) KEY (4, 1);",
        "ASSERT VALUES t (id, v) VALUES (1, 50); ASSERT VALUES t (v) VALUES (5);",
        "ASSERT TABLE large (id INT PRIMARY KEY, v INT) WITH (kafka_topic='LARGE', value_format='JSON');",
        "assert table large with (key_format='kafka');",
    ],
)
def test_asserts_that_hold(tmp_path: Path, asserts: str) -> None:
    (script,) = scripts_in(written(tmp_path, f"--@test: holds\n{SETUP}{asserts}\n"))
    assert tried(script) is None


@pytest.mark.parametrize(
    ("asserts", "told"),
    [
        ("ASSERT VALUES large (v) VALUES (51);", "Expected {V=51} but was {V=50}"),
        ("ASSERT VALUES large (v) VALUES (50);ASSERT VALUES large (v) VALUES (5);", "is a tombstone"),
        ("ASSERT NULL VALUES large (id) KEY (1);", "is no tombstone"),
        ("ASSERT VALUES t (v) VALUES (50);" * 3, "does not match actual"),
        ("ASSERT STREAM large;", "Expected type does not match actual for source LARGE"),
        ("ASSERT TABLE large (id INT PRIMARY KEY);", "Expected schema does not match actual"),
        ("ASSERT TABLE large WITH (kafka_topic='large');", "Expected kafka topic does not match actual"),
        ("ASSERT TABLE large WITH (value_format='AVRO');", "Expected value format does not match actual"),
        ("ASSERT VALUES large (w) VALUES (51);", "Column name W does not exist"),
    ],
)
def test_asserts_that_do_not_hold(tmp_path: Path, asserts: str, told: str) -> None:
    (script,) = scripts_in(written(tmp_path, f"--@test: fails\n{SETUP}{asserts}\n"))
    assert told in (tried(script) or "")


def test_an_error_that_is_expected(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "--@test: right\n--@expected.message: does not exist\nDROP STREAM s;\n"
        "--@test: other\n--@expected.message: too late\nDROP STREAM s;\n"
        "--@test: none\n--@expected.error: Anything\nCREATE TYPE a AS INT;\n",
    )
    right, other, none = (tried(one) for one in scripts_in(path))
    assert right is None
    assert other == "It should have ended with: too late\nIt ended with: S does not exist."
    assert none == "It should have ended with an error, and there was none."


def test_a_file_without_tests_is_told(tmp_path: Path) -> None:
    with pytest.raises(SqlError, match="has no tests"):
        scripts_in(written(tmp_path, SETUP))
    with pytest.raises(SqlError, match="comes before the first"):
        scripts_in(written(tmp_path, "--@expected.error: x\n--@test: y\n"))


def test_the_tool_runs_all_files_of_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, f"--@test: first\n{SETUP}\n--@test: second\nDROP STREAM s;\n")
    assert main(["ksql-test-runner", "--test-directory", str(tmp_path), "-tf", str(tmp_path / "temp")]) == 1
    assert capsys.readouterr().out == (
        "one.sql - first: passed\none.sql - second: FAILED\n\tS does not exist.\n1 of 2 tests passed\n"
    )
    written(tmp_path, f"--@test: first\n{SETUP}")
    assert main(["ksql-test-runner", "-td", str(tmp_path)]) == 0
    assert main(["ksql-test-runner", "-td", str(tmp_path / "nowhere")]) == 1


REPLACED = (
    "CREATE STREAM a (id INT KEY, v INT) WITH (kafka_topic='a', value_format='JSON');"
    "CREATE STREAM b AS SELECT * FROM a;"
    "CREATE TABLE c AS SELECT id, COUNT(*) AS n FROM a WHERE v > 0 GROUP BY id;"
    "INSERT INTO a VALUES (1, 0); INSERT INTO a VALUES (1, 1);"
)


@pytest.mark.parametrize(
    "then",
    [
        "CREATE OR REPLACE STREAM b AS SELECT * FROM a WHERE v > 5; INSERT INTO a VALUES (2, 1);"
        "INSERT INTO a VALUES (3, 7); ASSERT VALUES b (v) VALUES (0); ASSERT VALUES b (v) VALUES (1);"
        "ASSERT VALUES b (id, v) VALUES (3, 7);",
        "CREATE OR REPLACE TABLE c AS SELECT id, COUNT(*) AS n FROM a WHERE v < 0 GROUP BY id;"
        "INSERT INTO a VALUES (1, 5); INSERT INTO a VALUES (1, -5);"
        "ASSERT VALUES c (n) VALUES (1); ASSERT VALUES c (n) VALUES (2);",
    ],
)
def test_a_query_that_replaces_another_goes_on_where_that_one_was(tmp_path: Path, then: str) -> None:
    (script,) = scripts_in(written(tmp_path, f"--@test: replaced\n{REPLACED}{then}"))
    assert tried(script) is None


def test_a_script_runs_another_and_inserts_what_fits(tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_text("CREATE STREAM s (d DECIMAL(4, 2), b BYTES) WITH (kafka_topic='s', value_format='JSON');")
    text = f"RUN SCRIPT '{other}'; INSERT INTO s VALUES (1, 'IQ=='); ASSERT VALUES s (d, b) VALUES (1.00, 'IQ==');"
    (script,) = scripts_in(written(tmp_path, f"--@test: inserted\n{text}"))
    assert tried(script) is None


def test_a_script_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    (script,) = scripts_in(written(tmp_path, "--@test: lost\nRUN SCRIPT 'nowhere.txt';"))
    said = tried(script)
    assert said is not None
    assert "The script nowhere.txt cannot be read" in said
