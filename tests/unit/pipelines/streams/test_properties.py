"""Windowed aggregates and joins over random records, cut into random batches, beside a plain reference in Python.

The reference goes record by record and recomputes everything from all records it has accepted so far.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.streams import JSON, LONG, Topology, Windowed, hopping, session, sliding, tumbling, within


def _in_process() -> Any:
    spec = importlib.util.spec_from_file_location("in_process", Path(__file__).with_name("in_process.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.InProcess


InProcess = _in_process()
GRACE = 5
SEEDED = settings(max_examples=100, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
records = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 9)), max_size=14)
cuts = st.sets(st.integers(1, 13), max_size=3)
Record = tuple[str, int, int]  # key, time, value


def outputs(topology: Topology, given: list[tuple[str, Record]], cut: set[int]) -> dict[str, list[Any]]:
    """What each topic got, in batches that end at `cut`, and with nothing remembered in memory between them."""
    found: dict[str, list[Any]] = {sink.topic: [] for _, sink in topology.graph.sinks()}
    with InProcess(topology) as driver:
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
    counts: dict[Any, int] = {}
    sums: dict[Any, int] = {}
    now = -1
    for key, time, value in given:
        now = max(now, time)
        for start in range(0, time + 1, advance):
            if start <= time < start + size and start + size > now - GRACE:
                place = Windowed(key, start, start + size)
                counts[place] = counts.get(place, 0) + 1
                sums[place] = sums.get(place, 0) + value
    found = outputs(topology, [("in", one) for one in given], cut)
    assert table(found["counts"]) == counts
    assert table(found["sums"]) == sums
    closed = {place: count for place, count in counts.items() if place.end_ms + GRACE <= now}
    assert sorted(found["closed"]) == sorted(closed.items())


@SEEDED
@given(records, cuts)
def test_sessions(given: list[Record], cut: set[int]) -> None:
    gap = 6
    topology = Topology()
    grouped = topology.stream("in").group_by_key().windowed_by(session(gap, grace=GRACE))
    grouped.count().to("counts", value=LONG)
    grouped.reduce(lambda old, new: old + new).suppress().to("closed", value=JSON)
    sessions: dict[str, list[list[Any]]] = {}
    now = -1
    for key, time, value in given:
        now = max(now, time)
        near = [one for one in sessions.get(key, []) if one[0] - gap <= time <= one[1] + gap]
        merged = [min([time, *(one[0] for one in near)]), max([time, *(one[1] for one in near)]), 1, value]
        if merged[1] < now - GRACE - gap:
            continue
        merged[2] += sum(one[2] for one in near)
        merged[3] += sum(one[3] for one in near)
        sessions[key] = [one for one in sessions.get(key, []) if one not in near] + [merged]
    counts = {Windowed(key, one[0], one[1]): one[2] for key, found in sessions.items() for one in found}
    sums = {Windowed(key, one[0], one[1]): one[3] for key, found in sessions.items() for one in found}
    found = outputs(topology, [("in", one) for one in given], cut)
    assert tombstoned(found["counts"]) == counts
    assert sorted(found["closed"]) == sorted(
        (place, value) for place, value in sums.items() if place.end_ms < now - GRACE - gap
    )


@SEEDED
@given(records, cuts)
def test_sliding_windows(given: list[Record], cut: set[int]) -> None:
    difference = 8
    topology = Topology()
    topology.stream("in").group_by_key().windowed_by(sliding(difference, grace=100)).reduce(lambda a, b: a + b).to(
        "sums", value=JSON
    )
    expected = {}
    for key in "ab":
        own = [(time, value) for name, time, value in given if name == key]
        starts = {max(0, time - difference) for time, _ in own} | {time + 1 for time, _ in own}
        for start in starts:
            held = [(time, value) for time, value in own if start <= time <= start + difference]
            if held:
                expected[Windowed(key, start, start + difference)] = sum(value for _, value in held)
    found = outputs(topology, [("in", one) for one in given], cut)
    assert table(found["sums"]) == expected


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
    pairs = [
        (key, [number, other])
        for key, time, number in lefts
        for name, at, other in rights
        if key == name and time - before <= at <= time + after
    ]
    now = max((time for _, (_, time, _) in numbered), default=-1)
    met = {number for _, pair in pairs for number in pair}
    lonely = [(key, [number, None]) for key, time, number in lefts if number not in met and time + after + GRACE < now]
    lonely += [(key, [None, n]) for key, time, n in rights if n not in met and time + before + GRACE < now]
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
