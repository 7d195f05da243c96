"""Times that are taken from records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from barnabas.streams import (
    JSON,
    LONG,
    STRING,
    RecordError,
    Topology,
    TopologyError,
    TopologyTestDriver,
    col,
    json,
    tumbling,
    with_context,
)


def at(value: Any) -> int:
    return int(value["at"])


@pytest.mark.parametrize(
    "timestamp",
    [
        at,
        lambda key, value: value["at"],
        with_context(lambda key, value, context: context.timestamp_ms + value["at"]),
        lambda value: datetime.fromtimestamp(value["at"] / 1000, UTC),
        col("value.at"),
    ],
    ids=["value", "record", "context", "datetime", "column"],
)
def test_windows_go_by_the_time_that_is_taken(timestamp: Any) -> None:
    topology = Topology()
    stream = topology.stream("in", value=json("at long, other string"), timestamp=timestamp)
    stream.group_by_key().windowed_by(tumbling(10)).count().to_stream().map(
        lambda window, count: (f"{window.key}{window.start_ms}", count)
    ).to("out", key=STRING, value=LONG)
    with TopologyTestDriver(topology) as driver:
        for time in (3, 12, 14, 1):  # the last one is late
            driver.pipe_input("in", "a", {"at": time})
        assert driver.read_timed_output("out") == [("a0", 1, 3), ("a10", 2, 14)]
        assert sum(one.late for one in driver.figures().operators.values()) == 1


def test_topics_are_merged_by_the_time_that_is_taken() -> None:
    topology = Topology()
    stream = topology.stream("in", value=JSON, timestamp=at)
    table = topology.table("prices", value=JSON, timestamp=at)
    stream.join(table, lambda left, right: right["price"]).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        for time in (5, 15, 25):
            driver.pipe_input("in", "a", {"at": time}, timestamp_ms=1000)
        for time in (10, 20):
            driver.pipe_input("prices", "a", {"at": time, "price": time})
        assert driver.read_timed_output("out") == [("a", 10, 15), ("a", 20, 25)]


def test_a_record_without_a_value_keeps_its_own_time_where_the_function_fails() -> None:
    topology = Topology()
    topology.table("in", value=JSON, timestamp=at).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", {"at": 7})
        driver.pipe_input("in", "a", None, timestamp_ms=9)
        assert driver.read_timed_output("out") == [("a", {"at": 7}, 7), ("a", None, 9)]


def test_a_record_without_a_time_stops_the_topology_in_a_sentence_or_is_a_dead_letter() -> None:
    topology = Topology()
    topology.stream("in", value=JSON, timestamp=lambda value: value["when"]).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", {"when": 1})
        driver.pipe_input("in", "a", {"at": 1})
        with pytest.raises(RecordError, match=r"source-0 .* record at offset 1 of in-0: KeyError: 'when'"):
            driver.read_output("out")
    topology = Topology(dead_letter="letters")
    topology.stream("in", "other", value=JSON, timestamp=lambda value: value.get("at")).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_bytes("other", b"a", b"no JSON")
        driver.pipe_input("in", "a", {"at": "now"})
        driver.pipe_input("in", "a", {"at": 3})
        driver.pipe_input("other", "a", {"at": 2})
        driver.pipe_input("in", "a", {"at": None})
        assert driver.read_timed_output("out") == [("a", {"at": 2}, 2), ("a", {"at": 3}, 3)]
        letters = driver.read_records("letters")
        said = {
            (headers["__barnabas.errors.topic"], headers["__barnabas.errors.message"].decode().partition(": ")[2])
            for _, _, headers in letters
        }
        assert len(letters) == 3
        assert (
            b"in",
            "ValueError: timestamp= gave 'now': it needs a whole number of milliseconds, or a datetime",
        ) in said
        assert (
            b"in",
            "ValueError: timestamp= gave None: it needs a whole number of milliseconds, or a datetime",
        ) in said
        assert any(topic == b"other" and "it is no JSON" in sentence for topic, sentence in said)


def test_a_record_of_a_negative_time_is_left_out_and_counted() -> None:
    topology = Topology()
    topology.stream("in", value=JSON, timestamp=at).to("out")
    with TopologyTestDriver(topology) as driver:
        for time in (1, -5, 2):
            driver.pipe_input("in", "a", {"at": time})
        assert [time for _, _, time in driver.read_timed_output("out")] == [1, 2]
        assert driver.figures().operators["source-0"].skipped == 1


def test_what_is_no_function_and_a_second_one_for_a_topic_are_refused() -> None:
    topology = Topology()
    with pytest.raises(
        TopologyError, match=r"timestamp= of stream\(\) needs a function of the value, or of key and value"
    ):
        topology.stream("in", timestamp=3)  # type: ignore[call-overload]
    topology.stream("in", timestamp=at)
    with pytest.raises(
        TopologyError, match=r"table\(\) gives in a second timestamp=: .*test_event_time.py:\d+ has given"
    ):
        topology.table("in", timestamp=at)
