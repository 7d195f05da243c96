"""Windowed aggregates and joins over random records, cut into random batches, beside a plain reference in Python.

Through Spark the same is done in tests/pipelines/streams, many at once.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.streams import (
    JSON,
    LONG,
    Topology,
    TopologyTestDriver,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)


def beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = beside("plain_reference")
GRACE = 5
SEEDED = settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 9)), max_size=14)
cuts = st.sets(st.integers(1, 13), max_size=3)
Record = tuple[str, int, int]  # key, time, value


def outputs(topology: Topology, given: list[tuple[str, Record]], cut: set[int]) -> dict[str, list[Any]]:
    """What each topic got, in batches that end at `cut`, and with nothing remembered in memory between them."""
    found: dict[str, list[Any]] = {sink.topic: [] for _, sink in topology.graph.sinks()}
    with TopologyTestDriver(topology) as driver:
        for number, (topic, (key, time, value)) in enumerate(given):
            if number in cut:
                for name, got in found.items():
                    got += driver.read_output(name)
                driver.restart()
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        for name, got in found.items():
            got += driver.read_output(name)
    return found


def table(found: list[Any]) -> dict[Any, Any]:
    return {key: value for key, value in found if value is not None}


def tombstoned(found: list[Any]) -> dict[Any, Any]:
    return {key: value for key, value in dict(found).items() if value is not None}


@SEEDED
@given(records, cuts, st.sampled_from([(10, 10), (10, 5), (10, 3)]))
def test_time_windows(given: list[Record], cut: set[int], shape: tuple[int, int]) -> None:
    size, advance = shape
    topology = Topology()
    windows = tumbling(size, grace=GRACE) if size == advance else hopping(size, advance, grace=GRACE)
    grouped = topology.stream("in").group_by_key().windowed_by(windows)
    grouped.count().to("counts", value=LONG)
    grouped.reduce(lambda old, new: old + new).to("sums", value=JSON)
    grouped.count().suppress().to("closed", value=LONG)
    counts, sums, closed = plain.time_windows(given, size, advance, GRACE)
    found = outputs(topology, [("in", one) for one in given], cut)
    assert table(found["counts"]) == counts
    assert table(found["sums"]) == sums
    assert sorted(found["closed"]) == sorted(closed.items())


@SEEDED
@given(records, cuts)
def test_sessions(given: list[Record], cut: set[int]) -> None:
    gap = 6
    topology = Topology()
    grouped = topology.stream("in").group_by_key().windowed_by(session_window(gap, grace=GRACE))
    grouped.count().to("counts", value=LONG)
    grouped.reduce(lambda old, new: old + new).suppress().to("closed", value=JSON)
    counts, closed = plain.sessions(given, gap, GRACE)
    found = outputs(topology, [("in", one) for one in given], cut)
    assert tombstoned(found["counts"]) == counts
    assert dict(found["closed"]) == closed


@SEEDED
@given(records, cuts)
def test_sliding_windows(given: list[Record], cut: set[int]) -> None:
    difference = 8
    topology = Topology()
    topology.stream("in").group_by_key().windowed_by(sliding(difference, grace=100)).reduce(lambda a, b: a + b).to(
        "sums", value=JSON
    )
    found = outputs(topology, [("in", one) for one in given], cut)
    assert table(found["sums"]) == plain.sliding_sums(given, difference)


sided = st.lists(
    st.tuples(st.sampled_from(["in", "other"]), st.tuples(st.sampled_from("ab"), st.integers(0, 60))), max_size=14
)


@SEEDED
@given(sided, cuts, st.sampled_from([(8, 8), (0, 5), (12, 0)]))
def test_streams_joined_with_streams(given: list[Any], cut: set[int], reach: tuple[int, int]) -> None:
    """In order of time, so that batches do not decide what is late."""
    before, after = reach
    topology = Topology()
    left, right = topology.stream("in"), topology.stream("other")
    windows = within(before=before, after=after, grace=GRACE)
    left.join(right, lambda a, b: [a, b], windows).to("inner", value=JSON)
    left.outer_join(right, lambda a, b: [a, b], windows).to("outer", value=JSON)
    ordered = sorted(given, key=lambda one: one[1][1])
    numbered = [(topic, (key, time, number)) for number, (topic, (key, time)) in enumerate(ordered)]
    lefts = [one for topic, one in numbered if topic == "in"]
    rights = [one for topic, one in numbered if topic == "other"]
    pairs, lonely = plain.stream_pairs(lefts, rights, before, after, GRACE)
    found = outputs(topology, numbered, cut)
    assert sorted(found["inner"]) == sorted(pairs)
    assert sorted(found["outer"], key=str) == sorted(pairs + lonely, key=str)


@SEEDED
@given(
    st.lists(st.tuples(st.sampled_from(["in", "other"]), st.sampled_from("abc"), st.integers(-3, 9)), max_size=16), cuts
)
def test_tables_and_streams_joined_with_tables(given: list[Any], cut: set[int]) -> None:
    """Negative values are tombstones."""
    topology = Topology()
    one, other = topology.table("in"), topology.table("other")
    one.join(other, lambda a, b: [a, b]).to("inner", value=JSON)
    one.outer_join(other, lambda a, b: [a, b]).to("outer", value=JSON)
    topology.stream("in").join(other, lambda a, b: [a, b]).to("stream", value=JSON)
    one.join_by(other, lambda value: "abc"[value % 3], lambda a, b: [a, b]).to("foreign", value=JSON)
    one.group_by(lambda key, value: str(value % 2)).aggregate(
        lambda: 0, lambda key, value, sum: sum + value, lambda key, value, sum: sum - value
    ).to("parity", value=JSON)
    tables: dict[str, dict[str, int]] = {"in": {}, "other": {}}
    streamed = []
    sent = []
    for time, (topic, key, number) in enumerate(given):
        value = None if number < 0 else number
        sent.append((topic, (key, time, value)))
        if value is None:
            tables[topic].pop(key, None)
        else:
            tables[topic][key] = value
            if topic == "in" and key in tables["other"]:
                streamed.append((key, [value, tables["other"][key]]))
    left, right = tables["in"], tables["other"]
    found = outputs(topology, sent, cut)
    assert tombstoned(found["inner"]) == {key: [left[key], right[key]] for key in left.keys() & right.keys()}
    assert tombstoned(found["outer"]) == {key: [left.get(key), right.get(key)] for key in left.keys() | right.keys()}
    assert found["stream"] == streamed
    foreign = {key: [value, right["abc"[value % 3]]] for key, value in left.items() if "abc"[value % 3] in right}
    assert tombstoned(found["foreign"]) == foreign
    parities = {key: sum(value for value in left.values() if value % 2 == int(key)) for key in dict(found["parity"])}
    assert dict(found["parity"]) == parities
