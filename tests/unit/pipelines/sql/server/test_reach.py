"""Files, code and settings that statements may not reach unless the server's file says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language.batches import files_in, spark_text
from barnabas.pipelines.sql.language.lexer import tokens_of
from barnabas.pipelines.sql.server.reach import DIRECTORIES, MODULES, Reach, check_batch, check_property


def test_no_file_is_read_unless_a_directory_is_named() -> None:
    with pytest.raises(SqlError, match=f"Files are not read by this server: `/etc/passwd`. Its setting {DIRECTORIES}"):
        Reach.from_properties({}).check_file("/etc/passwd")


def test_files_below_a_named_directory_are_read_and_no_others(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / "out").symlink_to("/etc")
    reach = Reach.from_properties({DIRECTORIES: f"{lake}, s3a://bucket/open"})
    inside = [f"{lake}/a.csv", f"file:{lake}/a.csv", f"file://{lake}/*/a.csv", f"{lake}/b/../a.csv"]
    assert [reach.check_file(one) for one in inside] == [
        f"{lake}/a.csv",
        f"{lake}/a.csv",
        f"{lake}/*/a.csv",
        f"{lake}/a.csv",
    ]
    assert reach.check_file("s3a://bucket/open/x.csv") == "s3a://bucket/open/x.csv"
    outside = [
        "/etc/passwd",
        f"{lake}/out/passwd",
        f"{lake}/../x.csv",
        f"{lake}/{{a,../../x}}.csv",
        f"{lake}2/x.csv",
        f"FILE:{lake}/../x.csv",
        "s3a://bucket/open/../x.csv",
        "s3a://bucket/opened",
        "hdfs:///x",
    ]
    for one in outside:
        with pytest.raises(SqlError, match=r"is not below a directory|is not read"):
            reach.check_file(one)


def test_functions_are_imported_from_named_modules_alone() -> None:
    with pytest.raises(SqlError, match=f"its setting {MODULES} names the modules that statements may use; it is empty"):
        Reach().check_module("os:system")
    reach = Reach.from_properties({MODULES: "shop.functions, math"})
    reach.check_module("math:gcd")
    reach.check_module("shop.functions.prices:rounded")
    for place in ("os:system", "shop:x", "shop.functions2:x", "mathematics:x"):
        with pytest.raises(SqlError, match=r"now shop\.functions, math"):
            reach.check_module(place)
    Reach.from_properties({MODULES: "*"}).check_module("os:system")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT java_method('java.lang.System', 'getenv', 'HOME') ORDER BY 1;",
        "SELECT `Reflect` ('java.lang.System', 'exit', 1) ORDER BY 1;",
        "SELECT try_reflect('java.lang.System', 'exit', 1) ORDER BY 1;",
        "SELECT IDENTIFIER('java_' || 'method')('java.lang.System', 'getenv', 'HOME') ORDER BY 1;",
        "SELECT * FROM IDENTIFIER('csv.`/etc/passwd`') ORDER BY 1;",
        "SELECT TRANSFORM (id) USING 'cat /etc/passwd' AS (x STRING) FROM (SELECT 1 AS id);",
    ],
)
def test_spark_runs_no_code_for_a_statement(text: str) -> None:
    with pytest.raises(SqlError, match=r"which statements may not|is not supported: write the name"):
        check_batch(tokens_of(text))


def test_ordinary_functions_and_joins_are_not_taken_for_code() -> None:
    check_batch(tokens_of("SELECT transform(xs, x -> x + 1) FROM a JOIN b USING (id) ORDER BY reflect;"))


def test_a_file_becomes_a_view_and_a_text_stays_a_text() -> None:
    tokens = tokens_of("SELECT r'a''b' FROM Parquet.`/x/y` p ORDER BY 1;")
    assert files_in(tokens) == {4: ("PARQUET", "/x/y")}
    assert spark_text(tokens, {4: "`v`"}) == r"(SELECT R 'a\'b' FROM `v` P ORDER BY 1)"


@pytest.mark.parametrize(
    "name",
    [
        DIRECTORIES,
        MODULES,
        "ksql.connect.url",
        "ksql.schema.registry.url",
        "ksql.streams.state.dir",
        "ssl.truststore.x",
        "consumer.sasl.jaas.config",
        "ksql.streams.producer.interceptor.classes",
        "bootstrap.servers",
        "spark.master",
    ],
)
def test_the_servers_own_settings_are_not_set_by_statements(name: str) -> None:
    with pytest.raises(SqlError, match=f"Cannot override property '{name}': it is set where the server is started."):
        check_property(name)


@pytest.mark.parametrize("name", ["auto.offset.reset", "ksql.streams.processing.guarantee", "consumer.fetch.min.bytes"])
def test_a_querys_settings_are(name: str) -> None:
    check_property(name)
