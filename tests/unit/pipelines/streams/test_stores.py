"""Stores asked from outside: by key, by range and by time, whatever keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.streams import (
    STRING,
    StateStore,
    StreamsError,
    Topology,
    TopologyTestDriver,
    Windowed,
    col,
    session_window,
    sliding,
    tumbling,
)


@pytest.fixture(scope="module")
def driver() -> Iterator[TopologyTestDriver]:
    topology = Topology("stores")
    texts = topology.stream("in", value=STRING)
    grouped = texts.group_by_key()
    grouped.count(store="counts")
    grouped.aggregate(longest=col("value").max(), store="columns")
    grouped.windowed_by(tumbling(10)).count(store="windows")
    grouped.windowed_by(tumbling(10)).count().suppress(store="closed")
    grouped.windowed_by(sliding(5)).count(store="slides")
    grouped.windowed_by(session_window(5)).count(store="sessions")
    texts.to_table(store="last")
    texts.group_by(lambda key, value: value if key != "a" else None).count(store="without-a")
    texts.group_by(lambda key, value: len(key) if key == "a" else key).count(store="mixed")
    rows, others = topology.table("rows", value=STRING, store="rows"), topology.table("others", value=STRING)
    rows.filter(lambda key, value: value != "x", store="filtered")
    rows.group_by(lambda key, value: value).count(store="by-value")
    rows.left_join(others, lambda one, other: (one, other), store="joined")
    rows.join_by(others, lambda key, value: f"{key}-{value}", lambda one, other: one + other, store="foreign")
    with TopologyTestDriver(topology, partitions=1) as made:
        for time, (key, value) in enumerate([("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("a", None)]):
            made.pipe_input("in", key, value, timestamp_ms=4 * time)
        for key, row in (("r1", "x"), ("r2", "y"), ("r1", "y"), ("r2", None), ("r3", "y")):
            made.pipe_input("rows", key, row)
        made.pipe_input("others", "r3-y", "!")
        made.pipe_input("others", "r1", "?")
        made.restart()
        yield made


CONTENT: dict[str, list[tuple[Any, Any]]] = {
    "counts": [("a", 2), ("b", 1), ("c", 1)],
    "columns": [("a", {"longest": "3"}), ("b", {"longest": "2"}), ("c", {"longest": "4"})],
    "windows": [(Windowed("a", 0, 10), 2), (Windowed("b", 0, 10), 1), (Windowed("c", 10, 20), 1)],
    "closed": [(Windowed("a", 0, 10), 2), (Windowed("b", 0, 10), 1)],
    "slides": [
        (Windowed("a", 0, 5), 1), (Windowed("a", 3, 8), 1), (Windowed("b", 0, 5), 1), (Windowed("c", 7, 12), 1),
    ],
    "sessions": [
        (Windowed("a", 0, 0), 1), (Windowed("a", 8, 8), 1), (Windowed("b", 4, 4), 1), (Windowed("c", 12, 12), 1),
    ],
    "last": [("b", "2"), ("c", "4")],
    "without-a": [("2", 1), ("4", 1)],
    "mixed": [(1, 2), ("b", 1), ("c", 1)],
    "rows": [("r1", "y"), ("r3", "y")],
    "filtered": [("r1", "y"), ("r3", "y")],
    "by-value": [("x", 0), ("y", 2)],
    "joined": [("r1", ("y", "?")), ("r3", ("y", None))],
    "foreign": [("r3", "y!")],
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENT)
def test_everything_is_there_in_the_order_of_keys(driver: TopologyTestDriver, name: str) -> None:
    store: StateStore = driver.store(name)
    assert list(store.all()) == CONTENT[name]
    assert len(store) == len(CONTENT[name])
    for key, value in CONTENT[name]:
        assert store.get(key) == value


def test_ranges_have_both_ends_and_windows_are_found_by_time(driver: TopologyTestDriver) -> None:
    counts, windows, sessions = (driver.store(name) for name in ("counts", "windows", "sessions"))
    assert counts.get("nobody") is None
    assert list(counts.range("b", "c")) == [("b", 1), ("c", 1)]
    assert list(counts.range(last="a")) == [("a", 2)]
    assert list(counts.range("c", "b")) == []
    assert list(windows.range("b")) == CONTENT["windows"][1:]
    assert windows.fetch("a") == windows.fetch("a", 0, 0) == [(Windowed("a", 0, 10), 2)]
    assert windows.fetch("a", 1) == windows.fetch("nobody") == []
    assert sessions.fetch("a", 5, 9) == [(Windowed("a", 8, 8), 1)]


def test_a_wrong_question_is_told_in_a_sentence(driver: TopologyTestDriver) -> None:
    with pytest.raises(StreamsError, match=r"store windows has windows: use fetch\('a'\), or get\(Windowed"):
        driver.store("windows").get("a")
    with pytest.raises(StreamsError, match=r"store counts has no windows: use get\(\) or range\(\)"):
        driver.store("counts").fetch("a")
    with pytest.raises(StreamsError, match="store counts has key 'a', which has no order with the range's"):
        list(driver.store("counts").range(1, 2))
