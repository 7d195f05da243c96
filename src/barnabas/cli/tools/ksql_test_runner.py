"""`ksql-test-runner -s statements.sql -i input.json -o output.json`: tests of SQL without broker and without Spark.

With directories as arguments, each of them (and each below it) that holds `statements.sql`, `input.json` and
`output.json` is a test. `run-ksql-test --test-directory tests` runs files of tests that are SQL alone.
"""

from __future__ import annotations

from pathlib import Path

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

PARSER = Parser(
    name="ksql-test-runner",
    summary="Runs SQL statements over records from a file and compares what comes out with another file.",
    positionals=(
        Positional(name="directory", help="Directories of tests.", many=True, required=False, completes="file"),
    ),
    options=(
        option("--sql-file", "-s", takes="file", help="The statements.", completes="file"),
        option("--input-file", "-i", takes="file", help='Records: {"inputs": [...]}.', completes="file"),
        option("--output-file", "-o", takes="file", help='What is expected: {"outputs": [...]}.', completes="file"),
        option(
            "--test-directory",
            "-td",
            takes="directory",
            help="Tests that are SQL alone: files (.sql) with --@test: name, statements, and ASSERT.",
        ),
        option("--temp-folder", "-tf", takes="directory", help="Taken for compatibility; nothing is written."),
        option("--extension-dir", "-e", takes="directory", help="Taken for compatibility; CREATE FUNCTION is used."),
    ),
)


def run(parsed: Parsed) -> int:
    if (directory := parsed.text("test-directory")) is not None:
        return run_scripts(Path(directory))
    cases = cases_of(parsed)
    failed = 0
    for name, paths in cases:
        problem = tried(*paths)
        if len(cases) > 1:
            print(f"{name}:")
        print("\t >>> Test passed!" if problem is None else f"\t>>>>> Test failed: {problem}")
        failed += problem is not None
    if len(cases) > 1:
        print(f"{len(cases) - failed} of {len(cases)} tests passed")
    return 1 if failed else 0


def run_scripts(directory: Path) -> int:
    from barnabas.pipelines.sql.errors import SqlError
    from barnabas.pipelines.sql.scripts import scripts_in
    from barnabas.pipelines.sql.scripts import tried as tried_script

    paths = sorted(directory.rglob("*.sql")) if directory.is_dir() else []
    if not paths:
        raise UsageError(f"{directory} is no directory of tests: it has no file that ends with .sql.")
    try:
        scripts = [one for path in paths for one in scripts_in(path)]
    except SqlError as error:
        raise UsageError(str(error)) from None
    failed = 0
    for one in scripts:
        problem = tried_script(one)
        print(f"{one.path.relative_to(directory)} - {one.name}: {'passed' if problem is None else 'FAILED'}")
        if problem is not None:
            print("\t" + problem.replace("\n", "\n\t"))
        failed += problem is not None
    print(f"{len(scripts) - failed} of {len(scripts)} tests passed")
    return 1 if failed else 0


def cases_of(parsed: Parsed) -> list[tuple[str, tuple[Path, Path | None, Path]]]:
    if parsed.rest:
        found = [path.parent for one in parsed.rest for path in sorted(Path(one).rglob("statements.sql"))]
        if not found:
            raise UsageError(f"{', '.join(parsed.rest)} has no statements.sql.")
        return [(str(one), (one / "statements.sql", input_of(one), one / "output.json")) for one in found]
    given = [parsed.text(name) for name in ("sql-file", "input-file", "output-file")]
    sql, inputs, outputs = (None if one is None else Path(one) for one in given)
    if sql is None or outputs is None:
        raise UsageError("--sql-file and --output-file are needed, or directories of tests.")
    return [(str(sql), (sql, inputs, outputs))]


def input_of(directory: Path) -> Path | None:
    """Statements may bring their records by INSERT."""
    path = directory / "input.json"
    return path if path.exists() else None


def tried(sql: Path, inputs: Path | None, outputs: Path) -> str | None:
    """What went wrong, or None."""
    from barnabas.pipelines.sql.cases import difference, inputs_in, outputs_in, run_case
    from barnabas.pipelines.sql.errors import SqlError
    from barnabas.pipelines.streams.errors import StreamsError

    try:
        given = [] if inputs is None else inputs_in(inputs)
        expected = outputs_in(outputs)
        return difference(expected, run_case(sql.read_text(), given))
    except (SqlError, StreamsError, OSError) as error:
        return str(error)
