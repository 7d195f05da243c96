"""Topologies as people write them at the first try: built-in functions, methods, generators, timedeltas, chains.
Nothing here needs a cast or an ignore, so a type checker reads it as it stands."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas import streams
from barnabas.streams import (
    INT,
    JSON,
    LONG,
    STRING,
    Stream,
    Table,
    Topology,
    TopologyTestDriver,
    Windowed,
    col,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

SECOND = timedelta(seconds=1)


def letters(key: str, value: str) -> Iterator[tuple[str, str]]:
    for letter in value:
        yield letter, key


def times(count: int, value: str) -> str:
    return value * count


def asked(value: str, mark: str = "?") -> str:
    return value + mark


class Suffix:
    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def __call__(self, value: str) -> str:
        return value + self.suffix

    def behind(self, key: str, value: str) -> str:
        return f"{key}{value}{self.suffix}"


def windowed_keys(table: Table[Windowed[str], int]) -> Stream[str, int]:
    return table.to_stream().map(lambda window, count: (f"{window.key}@{window.start_ms}", count))


def chained(stream: Stream[str, str]) -> None:
    short, rest = stream.branch(lambda key, value: len(value) < 3, lambda key, value: True)
    loud, quiet = rest.branch(lambda key, value: value.isupper(), lambda key, value: True)
    short.merge(loud, quiet).to("out")


def build(name: str) -> Callable[[Stream[str, str]], None]:
    made: dict[str, Callable[[Stream[str, str]], None]] = {
        "str.upper": lambda s: s.map_values(str.upper).to("out"),
        "len": lambda s: s.map_values(len).to("out", key=STRING, value=INT),
        "class": lambda s: s.map_values(list).to("out", value=JSON),
        "partial": lambda s: s.map_values(functools.partial(times, 2)).to("out"),
        "callable": lambda s: s.map_values(Suffix("!")).to("out"),
        "method": lambda s: s.map_values(Suffix("!").behind).to("out"),
        "default": lambda s: s.map_values(asked).to("out"),
        "key-and-value": lambda s: s.map_values(lambda key, value: key + value).to("out"),
        "split": lambda s: s.flat_map_values(str.split).to("out"),
        "generator": lambda s: s.flat_map(letters).to("out"),
        "generator-of-values": lambda s: s.flat_map_values(lambda value: (one for one in value)).to("out"),
        "print": lambda s: s.peek(print).to("out"),
        "chained": chained,
        "count-to-stream": lambda s: s.group_by_key().count().to_stream().to("out", value=LONG),
        "count-by-value": lambda s: s.group_by(lambda _, value: value).count().to("out", value=LONG),
        "tumbling": lambda s: windowed_keys(s.group_by_key().windowed_by(tumbling(SECOND)).count()).to("out"),
        "hopping": lambda s: windowed_keys(
            s.group_by_key().windowed_by(hopping(SECOND, SECOND / 2, grace=timedelta(minutes=1))).count()
        ).to("out"),
        "sliding": lambda s: windowed_keys(s.group_by_key().windowed_by(sliding(SECOND)).count()).to("out"),
        "session": lambda s: windowed_keys(s.group_by_key().windowed_by(session_window(SECOND)).count()).to("out"),
        "self-join": lambda s: s.join(s, lambda one, other: one + other, within(SECOND)).to("out"),
        "to-table": lambda s: s.to_table().map_values(str.title).to_stream().to("out"),
        "aggregate": lambda s: s.group_by_key().aggregate(list, lambda key, value, found: [*found, value]).to("out"),
        "column": lambda s: s.filter(col("value") == "ab").to("out"),
        "through": lambda s: s.map_values(len).through("lengths", value=INT).to("out"),
        "through-as-read": lambda s: s.filter(lambda key, value: True).through("again").to("out"),
    }
    return made[name]


EXPECTED: dict[str, list[tuple[Any, Any]]] = {
    "str.upper": [("k", "AB"), ("l", "HELLO")],
    "len": [("k", 2), ("l", 5)],
    "class": [("k", ["a", "b"]), ("l", ["h", "e", "l", "l", "o"])],
    "partial": [("k", "abab"), ("l", "hellohello")],
    "callable": [("k", "ab!"), ("l", "hello!")],
    "method": [("k", "kab!"), ("l", "lhello!")],
    "default": [("k", "ab?"), ("l", "hello?")],
    "key-and-value": [("k", "kab"), ("l", "lhello")],
    "split": [("k", "ab"), ("l", "hello")],
    "generator": [("a", "k"), ("b", "k"), ("h", "l"), ("e", "l"), ("l", "l"), ("l", "l"), ("o", "l")],
    "generator-of-values": [("k", "a"), ("k", "b"), *(("l", one) for one in "hello")],
    "print": [("k", "ab"), ("l", "hello")],
    "chained": [("k", "ab"), ("l", "hello")],
    "count-to-stream": [("k", 1), ("l", 1)],
    "count-by-value": [("ab", 1), ("hello", 1)],
    "tumbling": [("k@0", 1), ("l@0", 1)],
    "hopping": [("k@0", 1), ("l@0", 1)],
    "sliding": [("k@0", 1), ("l@0", 1)],
    "session": [("k@0", 1), ("l@0", 1)],
    "self-join": [("k", "abab"), ("l", "hellohello")],
    "to-table": [("k", "Ab"), ("l", "Hello")],
    "aggregate": [("k", ["ab"]), ("l", ["hello"])],
    "column": [("k", "ab")],
    "through": [("k", 2), ("l", 5)],
    "through-as-read": [("k", "ab"), ("l", "hello")],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_it_works_as_it_is_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    topology = Topology("spellings")
    build(name)(topology.stream("in", value=STRING))
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", "ab")
        driver.pipe_input("in", "l", "hello")
        assert driver.read_output("out") == EXPECTED[name]
    assert capsys.readouterr().out == ("k ab\nl hello\n" if name == "print" else "")


def test_what_functions_made_is_read_as_streams_read() -> None:
    topology = Topology()
    numbers = topology.stream("in")
    numbers.to("as-read")
    numbers.map_values(lambda value: {"n": value}).to("objects")
    numbers.map_values(lambda value: f"number {value}").to("texts")
    numbers.map_values(str).to("digits", value=STRING)
    numbers.group_by(lambda key, value: value).count().to("counts")
    numbers.map_values(lambda value: bytes([255, value])).to("bytes")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", 3)
        assert driver.read_output("as-read") == [("k", 3)]
        assert driver.read_output("objects") == [("k", {"n": 3})]
        assert driver.read_output("texts") == [("k", "number 3")]
        assert driver.read_output("digits") == [("k", "3")]
        assert driver.read_output("counts") == [("3", 1)]
        assert driver.read_output("bytes") == [("k", b"\xff\x03")]


def test_the_older_name_of_session_windows_warns() -> None:
    with pytest.warns(DeprecationWarning, match=r"session\(\) of barnabas.streams is the older name of session_window"):
        assert streams.session(5, grace=1) == session_window(5, grace=1)


def test_a_topology_that_writes_to_what_it_reads_comes_to_its_end() -> None:
    topology = Topology()
    numbers = topology.stream("numbers")
    numbers.filter(lambda key, value: value > 0).map_values(lambda value: value - 1).to("numbers", value=JSON)
    numbers.group_by_key().count().to("counts", value=LONG)
    with TopologyTestDriver(topology, partitions=2) as driver:
        driver.pipe_input("numbers", "a", 3)
        assert driver.read_output("counts")[-1] == ("a", 4)
        assert driver.read_output("numbers") == [("a", 2), ("a", 1), ("a", 0)]


def test_a_type_checker_finds_nothing_here_and_mistakes_elsewhere(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from barnabas.streams import STRING, Topology, tumbling\n"
        "lines = Topology().stream('in', value=STRING)\n"
        "reveal_type(lines.map_values(len))\n"
        "grouped = lines.group_by_key()\n"
        "reveal_type(grouped.count())\n"
        "reveal_type(grouped.windowed_by(tumbling(5)).aggregate(int, lambda key, value, total: total + len(value)))\n"
        "lines.map_values(str.upper).filter(lambda key, value: value.upper() == 'A').to(3)\n"
        "lines.map_values(len).map_values(str.upper)\n"
        "lines.join(lines, lambda one, other: one)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    source = Path(sys.modules[Topology.__module__].__file__ or "").parents[3]
    found = subprocess.run(
        [*command, str(wrong), __file__], capture_output=True, text=True, cwd=source, timeout=100, check=False
    ).stdout.splitlines()
    told = [line.partition(": ")[2].partition("  [")[0] for line in found if "wrong.py" in line]
    assert told[0].endswith('Stream[str, int]"') or told[0].endswith('Stream[builtins.str, builtins.int]"')
    plain = [line.replace("builtins.", "") for line in told]
    assert plain[1].endswith('Table[str, int]"')
    assert "Windowed[str]" in plain[2]
    assert plain[2].endswith('], int]"')
    for said in (
        'error: Argument 1 to "to" of',
        'error: Argument 1 to "map_values" of',
        'error: No overload variant of "join"',
    ):
        assert any(one.startswith(said) for one in told), told
    assert not [line for line in found if Path(__file__).name in line], found
