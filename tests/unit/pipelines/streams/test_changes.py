"""Every change: `emit="changes"`, of a topology and of one operator. tests/pipelines/streams/test_like_kafka_streams.py
compares all topologies with Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.streams import (
    LONG,
    STRING,
    Topology,
    TopologyError,
    TopologyTestDriver,
    Windowed,
    col,
    session_window,
    tumbling,
    within,
)


def outputs(topology: Topology, records: list[tuple[str, str, Any, int]], *topics: str) -> list[list[Any]]:
    """What one batch of records gives."""
    with TopologyTestDriver(topology) as driver:
        for topic, key, value, time in records:
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        return [driver.read_timed_output(topic) for topic in topics]


WORDS = [("in", "a", "x", 10), ("in", "b", "y", 12), ("in", "a", "z", 5), ("in", "a", "z", 20)]


def test_an_aggregate_shows_every_change_with_the_latest_time_of_what_went_into_it() -> None:
    topology = Topology(emit="changes")
    topology.stream("in", value=STRING).group_by_key().count().to("out", value=LONG)
    (found,) = outputs(topology, WORDS, "out")
    assert found == [("a", 1, 10), ("b", 1, 12), ("a", 2, 10), ("a", 3, 20)]


def test_an_operator_says_itself_what_it_shows() -> None:
    topology = Topology()
    grouped = topology.stream("in", value=STRING).group_by_key()
    grouped.count(emit="changes").to("changes", value=LONG)
    grouped.reduce(lambda old, new: old + new).to("batch", value=STRING)
    changes, batch = outputs(topology, WORDS, "changes", "batch")
    assert [value for _, value, _ in changes] == [1, 1, 2, 3]
    assert batch == [("b", "y", 12), ("a", "xzz", 20)]

    topology = Topology(emit="changes")
    grouped = topology.stream("in", value=STRING).group_by_key()
    grouped.count(emit="batch").to("batch", value=LONG)
    grouped.aggregate(longest=col("value").max(), emit="changes").to("changes")
    batch, changes = outputs(topology, WORDS, "batch", "changes")
    assert batch == [("b", 1, 12), ("a", 3, 20)]
    assert [value["longest"] for _, value, _ in changes] == ["x", "y", "z", "z"]


def test_an_aggregate_of_a_table_that_shows_every_change_gets_every_change() -> None:
    topology = Topology()
    lengths = topology.stream("in", value=STRING).group_by_key().count()
    lengths.group_by(lambda key, count: f"{count}").count(emit="changes").to("out", value=LONG)
    (found,) = outputs(topology, [("in", "a", "x", 1), ("in", "a", "x", 2), ("in", "b", "x", 3)], "out")
    assert found == [("1", 1, 1), ("1", 0, 2), ("2", 1, 2), ("1", 1, 3)]


def test_sessions_take_back_what_they_swallow() -> None:
    topology = Topology(emit="changes")
    sessions = topology.stream("in", value=STRING).group_by_key().windowed_by(session_window(5, grace=5))
    sessions.count().to("out", value=LONG)
    (found,) = outputs(topology, [("in", "a", "x", 0), ("in", "a", "x", 8), ("in", "a", "x", 4)], "out")
    at = [
        (Windowed("a", start, end), value, time)
        for start, end, value, time in [(0, 0, 1, 0), (8, 8, 1, 8), (0, 0, None, 0), (8, 8, None, 8), (0, 8, 3, 8)]
    ]
    assert found == at


def test_windows_that_are_held_back_are_shown_once() -> None:
    topology = Topology(emit="changes")
    windows = topology.stream("in", value=STRING).group_by_key().windowed_by(tumbling(10)).count()
    windows.to("out", value=LONG)
    windows.suppress().to("closed", value=LONG)
    changes, closed = outputs(
        topology, [("in", "a", "x", 0), ("in", "a", "x", 8), ("in", "a", "x", 14)], "out", "closed"
    )
    assert [value for _, value, _ in changes] == [1, 2, 1]
    assert closed == [(Windowed("a", 0, 10), 2, 8)]


def test_a_join_of_tables_has_the_later_time_of_its_rows() -> None:
    topology = Topology()
    left, right = topology.table("left", value=STRING), topology.table("right", value=STRING)
    left.left_join(right, lambda one, other: f"{one} {other}").to("out", value=STRING)
    left.join_by(right, lambda value: value, lambda one, other: f"{one} {other}").to("foreign", value=STRING)
    with TopologyTestDriver(topology) as driver:
        for topic, key, value, time in [("right", "a", "r", 50), ("left", "a", "a", 20), ("left", "b", "b", 30)]:
            driver.pipe_input(topic, key, value, timestamp_ms=time)
            driver.restart()
        assert driver.read_timed_output("out") == [("a", "a r", 50), ("b", "b None", 30)]
        assert driver.read_timed_output("foreign") == [("a", "a r", 50)]


def test_a_join_at_once_shows_records_without_a_partner_when_they_come() -> None:
    topology = Topology()
    left, right = topology.stream("left", value=STRING), topology.stream("right", value=STRING)
    near = within(10, grace=100, at_once=True)
    left.outer_join(right, lambda one, other: f"{one} {other}", near).to("out", value=STRING)
    left.left_join(right, lambda one, other: f"{one} {other}", near).to("left-only", value=STRING)
    records = [("left", "a", "1", 0), ("right", "a", "2", 5), ("right", "b", "3", 6), ("left", "a", "4", 7)]
    outer, left_only = outputs(topology, records, "out", "left-only")
    assert outer == [("a", "1 None", 0), ("a", "1 2", 5), ("b", "None 3", 6), ("a", "4 2", 7)]
    assert left_only == [("a", "1 None", 0), ("a", "1 2", 5), ("a", "4 2", 7)]


def test_what_is_no_way_to_emit_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"Topology\(\) takes emit='batch' or emit='changes', not 'final'"):
        Topology(emit="final")
    grouped = Topology().stream("in").group_by_key()
    with pytest.raises(TopologyError, match=r"count\(\) takes emit='batch' or emit='changes', not True"):
        grouped.count(emit=True)  # type: ignore[arg-type]
