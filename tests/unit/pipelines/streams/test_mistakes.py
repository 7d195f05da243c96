"""A mistake in a topology is told where it is written, in one sentence that names the operator."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.spark.option_values import OptionError
from barnabas.streams import (
    LONG,
    STRING,
    RecordError,
    StreamsError,
    Topology,
    TopologyError,
    TopologyTestDriver,
    col,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

Build = Callable[[Topology, Any], Any]  # of a topology and a stream of it


def first(left: Any, right: Any) -> Any:
    return left


def kept(key: Any, value: Any, aggregate: Any) -> Any:
    return aggregate


MISTAKES: dict[str, Build] = {
    "filter() needs a function of key and value or a column, not 3": lambda t, s: s.filter(3),
    "filter() needs a function of key and value, not lambda(v)": lambda t, s: s.filter(lambda v: v),
    "filter_not() needs a function of key and value, not lambda()": lambda t, s: s.filter_not(lambda: True),
    "map() needs a function of key and value, not lambda(a, b, c)": lambda t, s: s.map(lambda a, b, c: a),
    "map_values() needs a function of the value, or of key and value, not None": lambda t, s: s.map_values(),
    "map_values() needs a function of the value, or of key and value, not kept(key: 'Any', value: 'Any', aggregate: "
    "'Any') -> 'Any'": lambda t, s: s.map_values(kept),
    "map_values() needs a column for n=, as col('value.n'), not 3": lambda t, s: s.map_values(n=3),
    "map_values() takes a function or named columns, not both": lambda t, s: s.map_values(str, n=col("value.n")),
    "flat_map() needs a function of key and value, not 'x'": lambda t, s: s.flat_map("x"),
    "flat_map_values() needs a function of the value, or of key and value, not 3": lambda t, s: s.flat_map_values(3),
    "select_key() needs a function of key and value, not lambda(v)": lambda t, s: s.select_key(lambda v: v),
    "branch() needs at least one predicate": lambda t, s: s.branch(),
    "branch() needs a function of key and value, not lambda(v)": lambda t, s: s.branch(lambda v: v),
    "merge() takes streams, not 3": lambda t, s: s.merge(3),
    "merge() takes streams, not a Table": lambda t, s: s.merge(t.table("rows")),
    "merge() takes what belongs to the same topology": lambda t, s: s.merge(Topology().stream("in")),
    "peek() needs a function of key and value, not None": lambda t, s: s.peek(None),
    "foreach() needs a function of key and value, not lambda(v)": lambda t, s: s.foreach(lambda v: v),
    "to() needs the name of a topic, not 3": lambda t, s: s.to(3),
    "to() can't have a topic named 'a b': only letters, digits, '.', '_' and '-' may be in it": (
        lambda t, s: s.to("a b")
    ),
    "to() needs a serde for value=, as STRING or JSON, not 'text'": lambda t, s: s.to("out", value="text"),
    "through() needs a serde for value=: a function made it, and it is read again": (
        lambda t, s: s.map_values(str).through("out")
    ),
    "repartition() needs a serde for key=, as STRING or JSON, not 8": lambda t, s: s.repartition(key=8),
    "group_by() needs a function of key and value, not lambda(v)": lambda t, s: s.group_by(lambda v: v),
    "reduce() needs a function of old and new, not 3": lambda t, s: s.group_by_key().reduce(3),
    "aggregate() needs a function without arguments, not 0": lambda t, s: s.group_by_key().aggregate(0, kept),
    "aggregate() needs a function of key, value and aggregate, not lambda(v, a)": (
        lambda t, s: s.group_by_key().aggregate(list, lambda v, a: a)
    ),
    "aggregate() needs an initializer and an aggregator, or columns": lambda t, s: s.group_by_key().aggregate(),
    "aggregate() needs an aggregate of a column for n=, as col('value.n').sum(), not value.n": (
        lambda t, s: s.group_by_key().aggregate(n=col("value.n"))
    ),
    "aggregate() of sessions needs merger=, which makes one aggregate of two": (
        lambda t, s: s.group_by_key().windowed_by(session_window(5)).aggregate(list, kept)
    ),
    "aggregate() needs a function of key, one and other, not lambda(a, b)": (
        lambda t, s: s.group_by_key().windowed_by(session_window(5)).aggregate(list, kept, merger=lambda a, b: a)
    ),
    "cogroup() takes a grouped stream, as group_by_key() gives it, not a Stream": (
        lambda t, s: s.group_by_key().cogroup(kept).cogroup(s, kept)
    ),
    "cogroup() needs a function of key, value and aggregate, not lambda(v)": (
        lambda t, s: s.group_by_key().cogroup(lambda v: v)
    ),
    "windowed_by() takes windows, as tumbling(60_000), not 5": lambda t, s: s.group_by_key().windowed_by(5),
    "windowed_by() takes windows, as tumbling(60_000), not a JoinWindows": (
        lambda t, s: s.group_by_key().windowed_by(within(5))
    ),
    "suppress() is for windows, and count-1 has none: windowed_by() before, or time_limit=": (
        lambda t, s: s.group_by_key().count().suppress()
    ),
    "suppress() takes max_records= with time_limit= only: windows are held until they close": (
        lambda t, s: s.group_by_key().count().suppress(max_records=3)
    ),
    "suppress() has max_records 0: it is a whole number, 1 or more": (
        lambda t, s: s.group_by_key().count().suppress(time_limit=5, max_records=0)
    ),
    "the time limit of suppress() is a timedelta or a whole number of milliseconds, not 'a second'": (
        lambda t, s: s.group_by_key().count().suppress(time_limit="a second")
    ),
    "join() takes a stream, a table or a global table, not 3": lambda t, s: s.join(3, first),
    "join() needs a function of left and right, not lambda(a)": lambda t, s: s.join(t.table("rows"), lambda a: a),
    "join() of two streams needs within=, as within(5000) or within(timedelta(seconds=5)), not 5": (
        lambda t, s: s.join(s, first, 5)
    ),
    "join() takes within= with a stream only": lambda t, s: s.join(t.table("rows"), first, within(5)),
    "join() takes key= with a global table only: select_key() gives records other keys": (
        lambda t, s: s.join(t.table("rows"), first, key=first)
    ),
    "left_join() with a global table needs key=, a function of key and value that gives the table's key": (
        lambda t, s: s.left_join(t.global_table("names"), first)
    ),
    "join() takes what belongs to the same topology": (
        lambda t, s: s.join(Topology().global_table("names"), first, key=first)
    ),
    "outer_join() takes a stream, not a Table": lambda t, s: s.outer_join(t.table("rows"), first, within(5)),
    "join() of a table takes a table, not a stream: to_table() makes one of it": (
        lambda t, s: t.table("rows").join(s, first)
    ),
    "left_join() takes a table, not a GlobalTable": (
        lambda t, s: t.table("rows").left_join(t.global_table("names"), first)
    ),
    "join_by() needs a function of the value, or of key and value, not 'customer'": (
        lambda t, s: t.table("rows").join_by(t.table("others"), "customer", first)
    ),
    "stream() needs the name of a topic, not ['a', 'b']": lambda t, s: t.stream(["a", "b"]),
    "stream() needs a serde for value=, as STRING or JSON, not <class 'str'>": lambda t, s: t.stream("a", value=str),
    "table() needs the name of a topic, not ''": lambda t, s: t.table(""),
    "table() can't have a store named 'a/b': only letters, digits, '.', '_' and '-' may be in it": (
        lambda t, s: t.table("rows", store="a/b")
    ),
    "there are two stores named counts: give one of them another store=": (
        lambda t, s: (s.group_by_key().count(store="counts"), t.table("rows", store="counts"))
    ),
    "there are two stores named rows: give one of them another store=": (
        lambda t, s: (t.table("rows", store="rows"), t.global_table("names", store="rows"))
    ),
    "there are two stores named global-names: give one of them another store=": (
        lambda t, s: (t.global_table("names"), t.global_table("names"))
    ),
    "global_table() can't have a store named '0': it needs more than digits": (
        lambda t, s: t.global_table("names", store="0")
    ),
    "a topology can't be named 'a/b': only letters, digits, '.', '_' and '-' may be in it": (
        lambda t, s: Topology("a/b")
    ),
    "Topology() needs a name, not ''": lambda t, s: Topology(""),
    "grace is at least 0 ms, not -1": lambda t, s: tumbling(10, grace=-1),
    "the size of a window is at least 1 ms, not -5": lambda t, s: hopping(-5, 1),
    "the time difference is at least 0 ms, not -1": lambda t, s: sliding(-1),
    "the gap between sessions is at least 1 ms, not 0:00:00": lambda t, s: session_window(timedelta()),
    "the time before is at least 0 ms, not -5": lambda t, s: within(-5),
    "the size of a window is a timedelta or a whole number of milliseconds, not '1m'": (
        lambda t, s: tumbling("1m")  # type: ignore[arg-type]
    ),
    "topology empty reads nothing: begin with stream() or table()": lambda t, s: TopologyTestDriver(Topology("empty")),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_is_told_where_it_is_written(said: str) -> None:
    topology = Topology()
    with pytest.raises(TopologyError) as told:
        MISTAKES[said](topology, topology.stream("in", value=STRING))
    place, _, sentence = str(told.value).partition(": ")
    assert sentence == said
    file, _, line = place.partition(":")
    assert Path(file).name == "test_mistakes.py"
    assert int(line) in lines_with_mistakes()


def lines_with_mistakes() -> range:
    """Those of MISTAKES, whose functions make them."""
    text = Path(__file__).read_text().splitlines()
    first = text.index("MISTAKES: dict[str, Build] = {") + 1
    return range(first, text.index("}", first) + 1)


def test_errors_name_file_and_line_of_the_operator() -> None:
    topology = Topology("halves")
    topology.stream("in").map_values(lambda value: 1 / value).to("out")
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", 0)
        with pytest.raises(RecordError) as told:
            driver.read_output("out")
    said = f"map-values-1 ({relative(__file__)}:{line}) can't go on with the record at offset 0 of in-0:"
    assert str(told.value) == f"{said} ZeroDivisionError: division by zero"


def test_what_is_wrong_with_the_whole_names_the_operator_it_is_about() -> None:
    topology = Topology("open-end")
    topology.stream("in").filter(lambda key, value: True)
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    with pytest.raises(TopologyError) as told:
        TopologyTestDriver(topology)
    assert str(told.value).startswith(f"{relative(__file__)}:{line}: topology open-end has no sink: filter-1 leads")


def relative(path: str) -> str:
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here


def test_the_test_driver_tells_what_it_can_not_take() -> None:
    topology = Topology("copies")
    topology.stream("in", value=STRING).to("out")
    with pytest.raises(TopologyError, match="topic in has at least one partition, not 0"):
        TopologyTestDriver(topology, partitions=0)
    with TopologyTestDriver(topology, partitions=2) as driver:
        with pytest.raises(TopologyError, match="topology copies does not read topic other"):
            driver.pipe_bytes("other", b"k", b"v")
        with pytest.raises(TopologyError, match="topology copies does not write to topic in: out"):
            driver.read_output("in")
        with pytest.raises(TopologyError, match="topology copies does not write to topic mistyped: out"):
            driver.read_records("mistyped")
        with pytest.raises(TopologyError, match="topic in has no partition 2: partitions= gives it 2"):
            driver.pipe_input("in", "k", "v", partition=2)
        with pytest.raises(StreamsError, match="topology copies has no store counts: it names none with store="):
            driver.store("counts")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (
            lambda s: s.map(lambda key, value: value).to("out"),
            r"map-1 \(.*:\d+\) can't go on with the record at offset 0 of in-0",
        ),
        (
            lambda s: s.flat_map_values(lambda value: None).to("out"),
            r"flat-map-values-1 \(.*:\d+\) can't go on with the record",
        ),
        (lambda s: s.to("out", value=LONG), r"sink-1 \(.*:\d+\) can't go on with the record at offset 0 of in-0"),
        (
            lambda s: s.group_by(lambda key, value: [value]).count().to("out"),
            "a key of type list can't be grouped or joined by: select another one",
        ),
    ],
)
def test_what_a_function_returned_is_told_with_its_record(build: Any, said: str) -> None:
    topology = Topology()
    build(topology.stream("in", value=STRING))
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", "long")
        with pytest.raises(StreamsError, match=said):
            driver.read_output("out")


def test_records_that_can_not_be_processed_are_skipped_and_logged_if_the_topology_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topology = Topology(on_error="skip")
    topology.stream("in").map_values(lambda value: 1 // value["x"]).to("out")
    with TopologyTestDriver(topology) as driver:
        for value in (b'{"x": 1}', b"{", *[b'{"x": 0}'] * 12, b'{"x": 2}'):
            driver.pipe_bytes("in", b"k", value)
        assert driver.read_output("out") == [("k", 1), ("k", 0)]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 11
    assert told[0].startswith("source-0 (")
    assert "can't go on with the record at offset 1 of in-0: it is no JSON" in told[0]
    assert told[1].startswith("map-values-1 (")
    assert told[1].endswith(
        "the record at offset 2 of in-0: ZeroDivisionError: integer division or modulo by zero; it is skipped"
    )
    assert told[-1] == "more records that are skipped in this batch are counted only"


def test_an_error_policy_and_the_topic_of_dead_letters_fit() -> None:
    with pytest.raises(TopologyError, match="on_error is 'stop', 'dead_letter' or 'skip', not 'ignore'"):
        Topology(on_error="ignore")
    with pytest.raises(TopologyError, match="on_error='dead_letter' needs dead_letter=, the name of a topic"):
        Topology(on_error="dead_letter")
    with pytest.raises(TopologyError, match="on_error='skip' takes no dead_letter="):
        Topology(on_error="skip", dead_letter="dead")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trigger": {"availablNow": True}}, "start() has a trigger 'availablNow': is availableNow meant?"),
        ({"trigger": "1 second"}, """start() takes a trigger as {"availableNow": True}, not '1 second'"""),
        (
            {"starting_offsets": "erliest"},
            "starting_offsets 'erliest': they are earliest, latest or {topic: {partition",
        ),
        ({"max_batch_records": 0}, "start() has max_batch_records 0: it is a whole number, 1 or more"),
        ({"options": {"kafka.securty.protocol": "SSL"}}, "is kafka.security.protocol meant?"),
    ],
)
def test_a_wrong_start_is_told_before_brokers_and_spark_are_asked(given: Any, said: str) -> None:
    topology = Topology()
    topology.stream("in").to("out")
    spark: Any = None
    with pytest.raises((TopologyError, OptionError), match=re.escape(said)):
        topology.start(spark, bootstrap_servers="127.0.0.1:1", **given)
