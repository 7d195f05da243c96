"""Functions that are told where a record comes from."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.streams import JSON, STRING, RecordContext, Topology, TopologyError, TopologyTestDriver, with_context


def told(key: Any, value: Any, context: RecordContext) -> list[Any]:
    return [context.topic, context.partition, context.offset, context.timestamp_ms, dict(context.headers)["h"].decode()]


def test_functions_of_streams_get_the_context_of_the_record() -> None:
    topology = Topology()
    stream = topology.stream("in", value=STRING)
    stream.map_values(with_context(told)).to("values", value=JSON)
    stream.map(with_context(lambda key, value, context: (f"{context.offset}", value))).to("map", key=STRING)
    stream.flat_map_values(with_context(lambda key, value, context: [value] * context.offset)).to("flat", value=STRING)
    stream.filter(with_context(lambda key, value, context: context.offset == 1)).to("filtered", value=STRING)
    stream.select_key(with_context(lambda key, value, context: context.partition)).to("keyed")
    first, rest = stream.branch(with_context(lambda key, value, context: context.offset == 0), lambda key, value: True)
    first.to("first", value=STRING)
    rest.to("rest", value=STRING)
    seen: list[int] = []
    stream.foreach(with_context(lambda key, value, context: seen.append(context.offset)))
    moved = stream.select_key(lambda key, value: value).repartition(key=STRING)
    moved.map_values(with_context(told)).to("moved", value=JSON)
    with TopologyTestDriver(topology, partitions=2) as driver:
        for number in (1, 2):
            headers = [("h", f"{number}".encode())]
            driver.pipe_input("in", "k", f"v{number}", timestamp_ms=number, partition=1, headers=headers)
        expected = [["in", 1, 0, 1, "1"], ["in", 1, 1, 2, "2"]]
        assert [value for _, value in driver.read_output("values")] == expected
        assert driver.read_output("map") == [("0", "v1"), ("1", "v2")]
        assert driver.read_output("flat") == [("k", "v2")]
        assert driver.read_output("filtered") == [("k", "v2")]
        assert [key for key, _ in driver.read_output("keyed")] == ["1", "1"]
        assert driver.read_output("first") == [("k", "v1")]
        assert driver.read_output("rest") == [("k", "v2")]
        assert sorted(value for _, value in driver.read_output("moved")) == expected
    assert seen == [0, 1]


def test_a_function_that_fails_with_its_context_is_told_with_its_record() -> None:
    topology = Topology(dead_letter="dead")
    failing = with_context(lambda key, value, context: 1 // context.offset)
    topology.stream("in", value=STRING).map_values(failing).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        for value in "ab":
            driver.pipe_input("in", "k", value)
        assert driver.read_output("out") == [("k", 1)]
        ((_, value, headers),) = driver.read_records("dead")
        assert (value, headers["__barnabas.errors.offset"]) == (b"a", b"0")


def test_where_there_is_no_context_it_is_refused() -> None:
    topology = Topology()
    table = topology.table("in")
    with pytest.raises(TopologyError, match=r"map_values\(\) of a table has no context: with_context\(\) is for func"):
        table.map_values(with_context(lambda key, value, context: value))
    with pytest.raises(TopologyError, match=r"reduce\(\) needs a function of old and new: with_context\(\) is for"):
        topology.stream("other").group_by_key().reduce(with_context(lambda key, value, context: value))
    with pytest.raises(TopologyError, match=r"filter\(with_context\(\)\) needs a function of key, value and context"):
        topology.stream("third").filter(with_context(lambda key, value: value))
    with pytest.raises(TopologyError, match="needs a function of key, value and context, not 7"):
        with_context(7)  # type: ignore[arg-type]
