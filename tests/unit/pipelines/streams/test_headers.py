"""A result has the headers of the record that brought it about."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.streams import STRING, Topology, TopologyTestDriver, hopping, session_window, sliding, tumbling, within


def of_results(build: Any, *records: tuple[str, str, str, int]) -> list[tuple[str, dict[str, bytes]]]:
    """(value, headers) of what comes of (topic, key, value, time); a record's header is its place in the list."""
    topology = Topology(dead_letter="dead")
    build(topology)
    with TopologyTestDriver(topology, partitions=1) as driver:
        for number, (topic, key, value, time) in enumerate(records):
            headers = [("n", b"%d" % number), ("none", None)]
            driver.pipe_input(topic, key, value, timestamp_ms=time, headers=headers)
        read = driver.read_records("out") + driver.read_records("dead")
        return [((value or b"").decode(), headers) for _, value, headers in read]


def numbered(value: str, number: int) -> tuple[str, dict[str, bytes | None]]:
    return value, {"n": b"%d" % number, "none": None}


def text(topology: Topology, topic: str = "in") -> Any:
    return topology.stream(topic, value=STRING)


@pytest.mark.parametrize("shuffled", [False, True])
def test_through_stateless_operators_and_repartitions(shuffled: bool) -> None:
    def build(topology: Topology) -> None:
        stream = (
            text(topology).filter(lambda key, value: value != "b").flat_map_values(lambda value: [value, value * 2])
        )
        (stream.select_key(lambda key, value: value).repartition() if shuffled else stream).to("out")

    found = of_results(build, ("in", "k", "a", 0), ("in", "k", "b", 1), ("in", "k", "c", 2))
    assert found == [numbered("a", 0), numbered("aa", 0), numbered("c", 2), numbered("cc", 2)]


def test_of_the_last_record_in_an_aggregate_and_of_the_later_one_in_a_join() -> None:
    counted = of_results(
        lambda topology: text(topology).group_by_key().count().to("out"), ("in", "k", "a", 0), ("in", "k", "b", 1)
    )
    assert counted == [numbered("2", 1)]

    def join(topology: Topology) -> None:
        left, right = text(topology, "left"), text(topology, "right")
        left.join(right, lambda a, b: a + b, within=within(10)).to("out")

    assert of_results(join, ("left", "k", "a", 0), ("right", "k", "b", 5)) == [numbered("ab", 1)]


@pytest.mark.parametrize("windows", [tumbling(10), hopping(10, 5), sliding(10), session_window(10)])
@pytest.mark.parametrize("closed", [False, True])
def test_windows_have_headers_of_some_record_that_was_there(windows: Any, closed: bool) -> None:
    def build(topology: Topology) -> None:
        table = text(topology).group_by(lambda key, value: value).windowed_by(windows).count()
        (table.suppress() if closed else table).to("out")

    found = of_results(build, *(("in", "k", "ab"[at % 2], at * 7) for at in range(12)))
    assert found
    assert all(headers.keys() == {"n", "none"} for _, headers in found)


def test_a_dead_letter_keeps_its_own_beside_those_that_tell_the_error() -> None:
    ((value, headers),) = of_results(
        lambda topology: text(topology).map_values(lambda value: 1 / 0).to("out"), ("in", "k", "a", 0)
    )
    assert (value, headers["n"], headers["__barnabas.errors.offset"]) == ("a", b"0", b"0")
