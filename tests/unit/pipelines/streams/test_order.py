"""The order in which a batch is worked off: that of the records, and of one record's rows that of the operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from barnabas.pipelines.streams.order import BITS, ROOM, dense, forks, ranks_of, spread, turns_of
from barnabas.streams import JSON, STRING, Topology, TopologyTestDriver, hopping, tumbling, within

RECORD = 1 << BITS  # from one record to the next


def numbers(*given: int) -> Any:
    return np.array(given, np.int64)


def test_rows_of_one_rank_get_turns_of_their_own() -> None:
    ranks, room = spread(ranks_of(numbers(0, 1, 1, 1, 4)), ROOM)
    third = ROOM // 3
    assert ranks.tolist() == [0, RECORD, RECORD + third, RECORD + 2 * third, 4 * RECORD]
    assert room == third


def test_turns_of_turns_stay_within_the_turn() -> None:
    ranks, room = spread(ranks_of(numbers(1, 1)), ROOM)
    again, less = spread(np.repeat(ranks, 2), room)
    assert again.tolist() == [RECORD, RECORD + ROOM // 4, RECORD + ROOM // 2, RECORD + 3 * ROOM // 4]
    assert less == ROOM // 4


def test_without_room_rows_keep_their_ranks() -> None:
    ranks, room = spread(numbers(5, 5), 1)
    assert ranks.tolist() == [5, 5]
    assert room == 1


def test_rows_that_arrive_have_room_between_them() -> None:
    ranks, room = dense(numbers(0, 0, 0, 2), numbers(7, 7, 9, 3))
    assert (ranks >> BITS).tolist() == [0, 0, 0, 2]
    assert turns_of(ranks).tolist() == [0, 0, ROOM // 2, 0]
    assert room == ROOM // 2


@pytest.mark.parametrize(
    ("consumers", "meetings", "found"),
    [
        ({0: [1, 2], 1: [3], 2: [3]}, [[3]], {0: (1, 2)}),
        ({0: [1, 2], 1: [3], 2: [4]}, [[3, 4]], {0: (1, 2)}),
        ({0: [1, 2], 1: [3], 2: [4]}, [[3], [4]], {}),
        ({0: [1], 1: [2, 3], 2: [4], 3: [4]}, [[4]], {1: (2, 3)}),
    ],
)
def test_forks_are_nodes_whose_rows_meet_again(consumers: Any, meetings: Any, found: Any) -> None:
    assert forks(consumers, meetings) == found


def both_windows(topology: Topology, *, filtered: bool) -> None:
    def counts(topic: str) -> Any:
        counted = topology.stream(topic).group_by_key().windowed_by(tumbling(5000)).count(store=topic)
        if filtered:
            counted = counted.filter(lambda key, count: True)
        return counted.suppress().to_stream().map(lambda key, count: (key.key, [key.start_ms, count]))

    counts("a").join(counts("b"), lambda x, y: [x, y], within=within(1000)).to("both", value=JSON)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("every", [1, 10, 60])
def test_windows_that_close_are_joined_whatever_the_batches(every: int, filtered: bool) -> None:
    topology = Topology()
    both_windows(topology, filtered=filtered)
    found = []
    with TopologyTestDriver(topology) as driver:
        for tick in range(60):
            for topic in "ab":
                driver.pipe_input(topic, "k", 1, timestamp_ms=tick * 500)
            if tick % every == every - 1:
                found += driver.read_output("both")
    assert found == [("k", [[start, 10], [start, 10]]) for start in range(0, 25_000, 5000)]


def written(topology: Topology, values: list[Any], topic: str = "out") -> list[Any]:
    with TopologyTestDriver(topology) as driver:
        for number, value in enumerate(values):
            driver.pipe_input("in", "k", value, timestamp_ms=number)
        return [row.value for row in driver.read_output(topic)]


def test_sinks_of_one_topic_write_in_the_order_of_records() -> None:
    topology = Topology()
    even, odd = topology.stream("in").branch(lambda key, value: value % 2 == 0, lambda key, value: True)
    even.to("out", value=JSON)
    odd.to("out", value=JSON)
    assert written(topology, list(range(6))) == [0, 1, 2, 3, 4, 5]


def test_a_row_goes_to_the_operators_behind_it_in_the_order_in_which_they_were_made() -> None:
    topology = Topology()
    pairs = topology.stream("in").flat_map_values(lambda value: [f"{value}x", f"{value}y"])
    first, second = pairs.map_values(lambda value: f"{value}1"), pairs.map_values(lambda value: f"{value}2")
    second.merge(first).to("out", value=STRING)
    assert written(topology, ["a", "b"]) == ["ax1", "ax2", "ay1", "ay2", "bx1", "bx2", "by1", "by2"]


def test_a_stream_finds_a_table_made_of_itself_as_it_stands_when_its_turn_comes() -> None:
    topology = Topology()
    stream = topology.stream("in")
    before = stream.map_values(lambda value: value)
    table = stream.to_table()
    before.left_join(table, lambda value, row: [value, row]).to("before", value=JSON)
    stream.left_join(table, lambda value, row: [value, row]).to("after", value=JSON)
    assert written(topology, [1, 2, 3], "before") == [[1, None], [2, 1], [3, 2]]
    assert written(topology, [1, 2, 3], "after") == [[1, 1], [2, 2], [3, 3]]


def test_topics_are_merged_by_time_where_nothing_is_remembered() -> None:
    topology = Topology()
    topology.stream("in").merge(topology.stream("other")).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        for number in range(200):
            driver.pipe_input("in", "k", 2 * number, timestamp_ms=2 * number)
        for number in range(200):
            driver.pipe_input("other", "k", 2 * number + 1, timestamp_ms=2 * number + 1)
        assert [row.value for row in driver.read_output("out")] == list(range(400))


def test_dead_letters_lie_in_the_order_of_records() -> None:
    topology = Topology(dead_letter="dead")
    stream = topology.stream("in")
    stream.filter(lambda key, value: 1 / (value - 2) > -9).to("out", value=JSON)
    stream.filter(lambda key, value: 1 / (value % 3) > 0).to("more", value=JSON)
    with TopologyTestDriver(topology) as driver:
        for value in range(5):
            driver.pipe_input("in", "k", value)
        assert [value for _, value, _ in driver.read_records("dead")] == [b"0", b"2", b"3"]


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_time_of_an_aggregate_is_the_latest_of_all_that_went_into_it(cut: int) -> None:
    topology = Topology()
    grouped = topology.stream("in").group_by_key()
    grouped.count().to("count", value=JSON)
    grouped.reduce(lambda old, new: old + new).to("sum", value=JSON)
    grouped.windowed_by(hopping(100, 50)).count().to("windows", value=JSON)
    found: dict[str, Any] = {}
    with TopologyTestDriver(topology) as driver:
        for number, time in enumerate((20, 40, 10)):
            if number == cut:
                driver.read_output("count")
                driver.restart()
            driver.pipe_input("in", "k", 1, timestamp_ms=time)
        for topic in ("count", "sum", "windows"):
            found[topic] = [(value, time) for _, value, time in driver.read_timed_output(topic)][-1]
    assert found == {"count": (3, 40), "sum": (3, 40), "windows": (3, 40)}


@pytest.mark.parametrize("cuts", [set(), {3}, set(range(9))])
def test_operators_that_remember_see_every_change_of_an_aggregate(cuts: set[int]) -> None:
    """A count of the changes of a count, and a window of them: what they come to in the end is the same."""
    topology = Topology()
    changes = topology.stream("in").group_by_key().count().to_stream()
    changes.group_by_key().reduce(lambda old, new: old + new).to("sum", value=JSON)
    changes.group_by_key().windowed_by(tumbling(4)).count().suppress().to_stream().map_values(lambda count: count).to(
        "windows", value=JSON
    )
    found: dict[str, Any] = {"sum": [], "windows": []}
    with TopologyTestDriver(topology) as driver:
        for number in range(9):
            if number in cuts:
                for topic, rows in found.items():
                    rows += driver.read_output(topic)
            driver.pipe_input("in", "k", 1, timestamp_ms=number)
        for topic, rows in found.items():
            rows += driver.read_output(topic)
    assert found["sum"][-1] == ("k", 45)
    assert [row.value for row in found["windows"]] == [4, 4]


def test_a_change_of_a_table_is_in_its_store_before_anybody_behind_it_has_its_turn() -> None:
    topology = Topology()
    rows = topology.table("in")
    double = rows.map_values(lambda value: 2 * value)
    double.join(rows, lambda twice, once: [twice, once]).to_stream().to("out", value=JSON)
    assert written(topology, [1, 2]) == [[2, 1], [2, 1], [4, 2], [4, 2]]
