"""Every operator against what Kafka Streams gives at the end of the input, restarted in the middle if it has state."""

from __future__ import annotations

import re
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
    Windowed,
    col,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

Records = list[tuple[str, Any, Any, int]]  # topic, key, value, time


def run(topology: Topology, records: Records, output: str = "out", *, cut: int | None = None, **serdes: Any) -> Any:
    """What is written; with `cut` in two batches, and everything but the files is forgotten between them."""
    with TopologyTestDriver(topology, partitions=serdes.pop("partitions", 1)) as driver:
        found = []
        for number, (topic, key, value, time) in enumerate(records):
            if number == cut:
                found += driver.read_output(output, **serdes)
                driver.restart()
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        found += driver.read_output(output, **serdes)
        return [tuple(one) for one in found]


def last(found: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """The table that a topic amounts to."""
    return {key: value for key, value in dict(found).items() if value is not None}


NUMBERS: Records = [("in", "a", 1, 0), ("in", "b", 2, 1), ("in", "a", 3, 2), ("in", None, 4, 3), ("in", "c", None, 4)]


def stream(topology: Topology) -> Any:
    return topology.stream("in", value=JSON)


def test_filters_and_maps_work_on_keys_and_values() -> None:
    topology = Topology()
    numbers = stream(topology)
    numbers.filter(lambda key, value: value > 1).map_values(lambda value: value * 10).to("out")
    numbers.filter_not(lambda key, value: value > 1).to("small")
    numbers.map(lambda key, value: (f"{key}!", value)).to("mapped")
    numbers.map_values(lambda key, value: f"{key}{value}").to("both")
    with TopologyTestDriver(topology) as driver:
        for topic, key, value, time in NUMBERS:
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        assert driver.read_output("out", value=JSON) == [("b", 20), ("a", 30), (None, 40)]
        assert driver.read_output("small") == [("a", 1)]
        assert driver.read_output("mapped", value=JSON) == [
            ("a!", 1), ("b!", 2), ("a!", 3), ("None!", 4), ("c!", None),
        ]  # fmt: skip
        assert driver.read_output("both", value=STRING)[0] == ("a", "a1")


def test_a_tombstone_kills_no_filter_and_a_filter_may_ask_for_it() -> None:
    topology = Topology()
    stream(topology).filter(lambda key, value: value["n"] > 0).to("out")
    stream(topology).filter(lambda key, value: value is None).to("gone")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", None)
        driver.pipe_input("in", "a", {"n": 1})
        assert driver.read_output("out") == [("a", {"n": 1})]
        assert driver.read_output("gone") == [("a", None)]


def test_columns_do_what_functions_do() -> None:
    topology = Topology()
    orders = topology.stream("in", value=JSON)
    large = (col("value.amount") > 10) & ~(col("value.kind") == "test")
    orders.filter(large).map_values(twice=col("value.amount") * 2, who=col("key")).to("out")
    orders.filter(col("value.amount").is_null()).to("without")
    orders.select_key(col("value.kind")).to("by-kind")
    with TopologyTestDriver(topology) as driver:
        for value in ({"amount": 11, "kind": "x"}, {"amount": 20, "kind": "test"}, {"amount": 5}, {"kind": "y"}, None):
            driver.pipe_input("in", "k", value)
        assert driver.read_output("out", value=JSON) == [("k", {"twice": 22, "who": "k"})]
        assert [value for _, value in driver.read_output("without")] == [{"kind": "y"}, None]
        assert [key for key, _ in driver.read_output("by-kind")] == ["x", "test", None, "y", None]


def test_flat_maps_branches_and_merges() -> None:
    topology = Topology()
    words = topology.stream("in", value=STRING).flat_map_values(str.split)
    short, long = words.branch(lambda _, word: len(word) < 4, lambda _, word: len(word) < 6)
    short.map_values(str.upper).merge(long).to("out")
    words.flat_map(lambda key, word: [(word, 1), (word, 2)] if word == "a" else []).to("pairs")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", "a whole sentence")
        driver.pipe_input("in", "k", "the end")
        assert driver.read_output("out", value=STRING) == [("k", "A"), ("k", "whole"), ("k", "THE"), ("k", "END")]
        assert driver.read_output("pairs", value=JSON) == [("a", 1), ("a", 2)]


def test_peek_sees_every_record_and_foreach_is_an_end() -> None:
    seen: list[Any] = []
    topology = Topology()
    stream(topology).peek(lambda key, value: seen.append(value)).foreach(lambda key, value: seen.append(key))
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", 1)
        driver.restart()
    assert seen == [1, "a"]


def test_a_topic_may_be_read_several_times() -> None:
    topology = Topology()
    stream(topology).map_values(lambda value: value + 1).merge(topology.stream("in")).to("out", value=JSON)
    assert run(topology, [("in", "a", 1, 0)]) == [("a", 2), ("a", 1)]


@pytest.mark.parametrize("cut", [None, 2])
def test_counts_leave_out_records_without_key_or_value(cut: int | None) -> None:
    topology = Topology()
    stream(topology).group_by_key().count().to("out", value=LONG)
    assert last(run(topology, NUMBERS, cut=cut)) == {"a": 2, "b": 1}


@pytest.mark.parametrize("cut", [None, 1, 3])
def test_reduce_and_aggregate_go_on_after_a_restart(cut: int | None) -> None:
    topology = Topology()
    grouped = stream(topology).group_by_key()
    grouped.reduce(lambda old, new: old * 10 + new).to("out", value=JSON)
    grouped.aggregate(list, lambda key, value, found: [*found, value]).to("lists", value=JSON)
    summary = grouped.aggregate(
        total=col("value").sum(), mean=col("value").avg(), least=col("value").min(), n=col("value").count()
    )
    summary.to("summaries", value=JSON)
    assert last(run(topology, NUMBERS, cut=cut)) == {"a": 13, "b": 2}
    assert last(run(topology, NUMBERS, "lists", cut=cut)) == {"a": [1, 3], "b": [2]}
    assert last(run(topology, NUMBERS, "summaries", cut=cut)) == {
        "a": {"total": 4, "mean": 2.0, "least": 1, "n": 2},
        "b": {"total": 2, "mean": 2.0, "least": 2, "n": 1},
    }


def test_an_aggregate_that_is_changed_in_place_is_one_of_its_batch() -> None:
    def add(key: str, value: int, found: dict[str, int]) -> dict[str, int]:
        found["n"] = found.get("n", 0) + value
        return found

    topology = Topology()
    table = stream(topology).group_by_key().aggregate(dict, add)
    table.filter(lambda key, value: value["n"] < 4).to("out", value=JSON)
    found = run(topology, [("in", "a", 1, 0), ("in", "a", 2, 1), ("in", "a", 3, 2)], cut=2)
    assert found == [("a", {"n": 3}), ("a", None)]


@pytest.mark.parametrize("partitions", [1, 3])
def test_words_are_counted_behind_a_repartition(partitions: int) -> None:
    topology = Topology()
    words = topology.stream("in", value=STRING).flat_map_values(str.split)
    words.group_by(lambda _, word: word).count().to("out", value=LONG)
    lines: Records = [("in", str(n), "a b a" if n % 2 else "c a", n) for n in range(10)]
    assert last(run(topology, lines, cut=5, partitions=partitions)) == {"a": 15, "b": 5, "c": 5}


@pytest.mark.parametrize("cut", [None, 3])
def test_tumbling_windows_take_late_records_within_the_grace_only(cut: int | None) -> None:
    topology = Topology()
    counted = stream(topology).group_by_key().windowed_by(tumbling(10, grace=5)).count()
    counted.to("out", value=LONG)
    records: Records = [("in", "a", 1, 1), ("in", "a", 1, 9), ("in", "a", 1, 14), ("in", "a", 1, 2), ("in", "a", 1, 15)]
    records.append(("in", "a", 1, 3))
    assert last(run(topology, records, cut=cut)) == {Windowed("a", 0, 10): 3, Windowed("a", 10, 20): 2}


def test_hopping_windows_overlap() -> None:
    topology = Topology()
    stream(topology).group_by_key().windowed_by(hopping(10, 5)).count().to("out", value=LONG)
    records: Records = [("in", "a", 1, 7), ("in", "a", 1, 12)]
    assert last(run(topology, records)) == {
        Windowed("a", 0, 10): 1, Windowed("a", 5, 15): 2, Windowed("a", 10, 20): 1,
    }  # fmt: skip


@pytest.mark.parametrize("cut", [None, 2])
def test_a_record_between_two_sessions_makes_them_one(cut: int | None) -> None:
    topology = Topology()
    stream(topology).group_by_key().windowed_by(session_window(5, grace=10)).reduce(lambda a, b: a + b).to(
        "out", value=JSON
    )
    records: Records = [("in", "a", 1, 0), ("in", "a", 2, 8), ("in", "a", 4, 4), ("in", "b", 8, 4)]
    found = run(topology, records, cut=cut)
    assert last(found) == {Windowed("a", 0, 8): 7, Windowed("b", 4, 4): 8}
    assert ((Windowed("a", 0, 0), None) in found) is (cut is not None)


def test_sliding_windows_end_with_a_record_or_begin_behind_one() -> None:
    topology = Topology()
    stream(topology).group_by_key().windowed_by(sliding(10, grace=100)).count().to("out", value=LONG)
    records: Records = [("in", "a", 1, 100), ("in", "a", 1, 105), ("in", "a", 1, 112), ("in", "a", 1, 103)]
    assert last(run(topology, records, cut=2)) == {
        Windowed("a", 90, 100): 1,
        Windowed("a", 95, 105): 3,
        Windowed("a", 101, 111): 2,
        Windowed("a", 102, 112): 3,
        Windowed("a", 104, 114): 2,
        Windowed("a", 106, 116): 1,
        Windowed("a", 93, 103): 2,
    }


def test_a_record_that_is_late_for_its_sliding_window_begins_none_behind_it() -> None:
    """The one behind it is open for a millisecond more; Kafka Streams leaves the record out."""
    topology = Topology(emit="changes")
    stream(topology).group_by_key().windowed_by(sliding(8, grace=5)).count().to("out", value=LONG)
    records: Records = [("in", "a", 1, 15), ("in", "a", 1, 16), ("in", "b", 1, 22)]
    assert last(run(topology, [*records, ("in", "a", 1, 9)]))[Windowed("a", 10, 18)] == 2
    assert run(topology, [*records, ("in", "a", 1, 8)]) == run(topology, records)


@pytest.mark.parametrize("cut", [None, 2, 4])
def test_suppressed_windows_show_one_result_when_they_close(cut: int | None) -> None:
    topology = Topology()
    counted = stream(topology).group_by_key().windowed_by(tumbling(10, grace=2)).count().suppress()
    counted.to("out", value=LONG)
    records: Records = [("in", "a", 1, 1), ("in", "b", 1, 5), ("in", "a", 1, 11), ("in", "a", 1, 3), ("in", "a", 1, 12)]
    assert sorted(run(topology, records, cut=cut)) == [(Windowed("a", 0, 10), 2), (Windowed("b", 0, 10), 1)]
    with pytest.raises(TopologyError, match=r"suppress\(\) is for windows, and count-1 has none"):
        stream(Topology()).group_by_key().count().suppress()


@pytest.mark.parametrize("cut", [None, 2, 4, 6, 7])
def test_rows_are_held_back_for_a_time_and_change_from_what_was_shown(cut: int | None) -> None:
    def held() -> tuple[Topology, Any]:
        topology = Topology()
        return topology, topology.table("in", value=STRING).suppress(time_limit=10)

    records: Records = [
        *[("in", "a", "1", 0), ("in", "b", "1", 1), ("in", "a", "2", 2), ("in", "a", "3", 3), ("in", "c", "9", 11)],
        *[("in", "a", "2", 12), ("in", "a", "1", 13), ("in", "d", "9", 40)],
    ]
    topology, table = held()
    table.to("out", value=STRING)
    assert run(topology, records, cut=cut) == [("a", "3"), ("b", "1"), ("c", "9"), ("a", "1")]
    topology, table = held()
    table.group_by(lambda key, value: value).count().to("out", value=LONG)
    assert dict(run(topology, records, cut=cut)) == {"3": 0, "1": 2, "9": 1}


def test_of_more_rows_than_may_be_held_the_oldest_is_shown() -> None:
    topology = Topology()
    topology.table("in", value=STRING).suppress(time_limit=1000, max_records=2).to("out", value=STRING)
    records: Records = [("in", key, f"{number}", number) for number, key in enumerate("abacdb")]
    assert run(topology, records) == [("a", "2"), ("b", "1"), ("c", "3")]


@pytest.mark.parametrize("cut", [None, 1, 2, 3, 4])
def test_a_stream_meets_the_row_that_the_table_had_then(cut: int | None) -> None:
    topology = Topology()
    stream(topology).join(topology.table("rows"), lambda left, right: [left, right]).to("out", value=JSON)
    stream(topology).left_join(topology.table("rows"), lambda left, right: [left, right]).to("left", value=JSON)
    records: Records = [("in", "a", 1, 1), ("rows", "a", "x", 2), ("in", "a", 2, 3), ("rows", "a", None, 4)]
    records += [("in", "a", 3, 5), ("in", None, 4, 6)]
    assert run(topology, records, cut=cut) == [("a", [2, "x"])]
    lefts = [("a", [1, None]), ("a", [2, "x"]), ("a", [3, None]), (None, [4, None])]
    assert run(topology, records, "left", cut=cut) == lefts


def test_records_and_rows_are_merged_by_time_in_whatever_order_they_come() -> None:
    topology = Topology()
    stream(topology).join(topology.table("rows"), lambda left, right: [left, right]).to("out", value=JSON)
    records: Records = [("in", "a", 1, 5), ("in", "a", 2, 15), ("rows", "a", "x", 0), ("rows", "a", "y", 10)]
    assert run(topology, records) == [("a", [1, "x"]), ("a", [2, "y"])]


def test_a_stream_that_was_rekeyed_meets_its_rows() -> None:
    topology = Topology()
    rekeyed = stream(topology).select_key(lambda key, value: value["id"])
    rekeyed.join(topology.table("rows"), lambda left, right: [left["n"], right]).to("out", value=JSON)
    records: Records = [("rows", f"r{n}", n, 0) for n in range(6)]
    records += [("in", "k", {"id": f"r{n}", "n": -n}, 1) for n in range(6)]
    found = run(topology, records, partitions={"in": 2, "rows": 3})
    assert sorted(found) == [(f"r{n}", [-n, n]) for n in range(6)]


def test_a_global_table_is_met_by_any_key() -> None:
    topology = Topology()
    names = topology.global_table("names", value=STRING)
    joined = stream(topology).left_join(names, lambda value, name: [value, name], key=lambda key, value: value)
    joined.to("out", value=JSON)
    records: Records = [("names", "x", "Xaver", 0), ("in", "a", "x", 1), ("in", "b", "y", 2), ("in", None, "x", 3)]
    found = run(topology, records, partitions={"in": 2, "names": 3})
    assert sorted(found, key=str) == [("a", ["x", "Xaver"]), ("b", ["y", None]), (None, ["x", "Xaver"])]


@pytest.mark.parametrize("cut", [None, 1, 2, 3, 4, 5])
def test_tables_are_joined_and_rows_that_lose_their_partner_are_gone(cut: int | None) -> None:
    topology = Topology()
    left, right = topology.table("in"), topology.table("rows")
    left.join(right, lambda a, b: [a, b]).to("out", value=JSON)
    left.left_join(right, lambda a, b: [a, b]).to("left", value=JSON)
    left.outer_join(right, lambda a, b: [a, b]).to("outer", value=JSON)
    records: Records = [("in", "a", 1, 1), ("rows", "a", "x", 2), ("in", "b", 2, 3), ("rows", "c", "z", 4)]
    records += [("in", "a", 3, 5), ("rows", "a", None, 6)]
    assert run(topology, records, cut=cut) == [("a", [1, "x"]), ("a", [3, "x"]), ("a", None)]
    assert last(run(topology, records, "left", cut=cut)) == {"a": [3, None], "b": [2, None]}
    assert last(run(topology, records, "outer", cut=cut)) == {"a": [3, None], "b": [2, None], "c": [None, "z"]}


@pytest.mark.parametrize("cut", [None, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("partitions", [1, 4])
def test_tables_are_joined_by_a_key_in_their_values(cut: int | None, partitions: int) -> None:
    topology = Topology()
    orders, people = topology.table("in"), topology.table("people")
    orders.join_by(people, lambda order: order["by"], lambda order, name: [order["n"], name]).to("out", value=JSON)
    orders.left_join_by(people, lambda order: order["by"], lambda o, name: [o["n"], name]).to("left", value=JSON)
    records: Records = [("people", "p", "Paul", 0), ("in", "1", {"by": "p", "n": 1}, 1)]
    records += [("in", "2", {"by": "q", "n": 2}, 2), ("people", "q", "Quinn", 3), ("in", "1", {"by": "q", "n": 3}, 4)]
    records += [("people", "p", None, 5), ("in", "2", {"by": None, "n": 4}, 6), ("in", "3", {"by": "x", "n": 5}, 7)]
    found = run(topology, records, cut=cut, partitions=partitions)
    assert last(found) == {"1": [3, "Quinn"]}
    lefts = run(topology, records, "left", cut=cut, partitions=partitions)
    assert last(lefts) == {"1": [3, "Quinn"], "2": [4, None], "3": [5, None]}


@pytest.mark.parametrize("keys", [["c", "a", "b"], [3, 10, 1], ["b", 1]])
def test_rows_of_one_foreign_key_are_joined_in_the_order_of_their_keys(keys: list[Any]) -> None:
    """Whichever was there first, as Kafka Streams keeps them."""
    topology = Topology()
    names = topology.table("names", value=STRING)
    joined = topology.table("in", key=JSON, value=STRING).join_by(names, lambda value: value, lambda _, name: name)
    joined.to("out", key=JSON, value=STRING)

    def found(keys: list[Any]) -> list[Any]:
        records: Records = [*(("in", key, "x", 0) for key in keys), ("names", "x", "name", 1)]
        return [key for key, name in run(topology, records, key=JSON, value=STRING) if name is not None]

    in_order = found(keys)
    assert found(keys[::-1]) == in_order
    assert in_order == sorted(keys) if isinstance(keys[0], type(keys[1])) else len(in_order) == len(keys)


@pytest.mark.parametrize("cut", [None, 1, 2, 3, 4])
def test_streams_are_joined_within_a_time(cut: int | None) -> None:
    topology = Topology()
    left, right = stream(topology), topology.stream("other")
    left.join(right, lambda a, b: [a, b], within(10)).to("out", value=JSON)
    left.left_join(right, lambda a, b: [a, b], within(10)).to("left", value=JSON)
    left.outer_join(right, lambda a, b: [a, b], within(10)).to("outer", value=JSON)
    records: Records = [("in", "a", 1, 100), ("other", "a", "x", 110), ("in", "a", 2, 111), ("other", "b", "y", 112)]
    records += [("in", "c", 3, 113), ("in", "z", 0, 200)]
    pairs = [("a", [1, "x"]), ("a", [2, "x"])]
    assert run(topology, records, cut=cut) == pairs
    assert run(topology, records, "left", cut=cut) == [*pairs, ("c", [3, None])]
    assert run(topology, records, "outer", cut=cut) == [*pairs, ("b", [None, "y"]), ("c", [3, None])]


@pytest.mark.parametrize("cut", [None, 2])
def test_cogroups_fold_several_streams_into_one_table(cut: int | None) -> None:
    topology = Topology()
    likes, comments = stream(topology).group_by_key(), topology.stream("comments").group_by_key()
    both = likes.cogroup(lambda key, value, found: found | {"likes": found.get("likes", 0) + value})
    both = both.cogroup(comments, lambda key, value, found: found | {"last": value})
    both.aggregate(dict).to("out", value=JSON)
    records: Records = [("in", "p", 1, 0), ("comments", "p", "nice", 1), ("in", "p", 2, 2), ("comments", "q", "hm", 3)]
    assert last(run(topology, records, cut=cut)) == {"p": {"likes": 3, "last": "nice"}, "q": {"last": "hm"}}


@pytest.mark.parametrize("cut", [None, 1, 2, 3])
def test_a_table_by_other_keys_takes_away_what_was(cut: int | None) -> None:
    topology = Topology()
    regions = topology.table("in", value=STRING).group_by(lambda user, region: region)
    regions.count().to("out", value=LONG)
    records: Records = [("in", "ann", "EU", 0), ("in", "bob", "EU", 1), ("in", "ann", "US", 2), ("in", "bob", None, 3)]
    assert last(run(topology, records, cut=cut, partitions=2)) == {"EU": 0, "US": 1}


def test_a_filter_on_a_table_takes_rows_back() -> None:
    topology = Topology()
    table = topology.table("in").filter(lambda key, value: value > 1).map_values(lambda value: value * 2)
    table.to("out", value=JSON)
    records: Records = [("in", "a", 2, 0), ("in", "a", 1, 1), ("in", "a", None, 2), ("in", "b", None, 3)]
    assert run(topology, records) == [("a", 4), ("a", None)]


def test_stores_are_asked_by_key_and_range() -> None:
    topology = Topology()
    grouped = stream(topology).group_by_key()
    grouped.count(store="counts")
    grouped.windowed_by(tumbling(10)).aggregate(total=col("value").sum(), store="windows")
    grouped.windowed_by(session_window(5)).count(store="sessions")
    with TopologyTestDriver(topology, partitions=3) as driver:
        for key, value, time in (("a", 1, 0), ("b", 2, 3), ("a", 3, 12), ("d", 4, 13)):
            driver.pipe_input("in", key, value, timestamp_ms=time)
        counts = driver.store("counts")
        assert counts.get("a") == 2
        assert counts.get("x") is None
        assert list(counts.range("a", "c")) == [("a", 2), ("b", 1)]
        assert len(counts) == 3
        windows = driver.store("windows")
        assert windows.fetch("a") == [(Windowed("a", 0, 10), {"total": 1}), (Windowed("a", 10, 20), {"total": 3})]
        assert windows.fetch("a", from_ms=5) == [(Windowed("a", 10, 20), {"total": 3})]
        assert driver.store("sessions").fetch("a", 12, 12) == [(Windowed("a", 12, 12), 1)]
        driver.pipe_input("in", "a", 9, timestamp_ms=14)
        assert driver.store("counts").get("a") == 3


def test_a_batch_that_is_done_again_begins_where_it_began() -> None:
    topology = Topology()
    stream(topology).group_by_key().count().to("out", value=LONG)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", 1)
        assert driver.read_output("out") == [("a", 1)]
        for _ in range(3):
            driver.pipe_input("in", "a", 1)
            driver.pipe_input("in", "b", 1)
            assert driver.read_output("out") == [("a", 2), ("b", 1)]
            driver.replay()


def test_a_function_that_raises_names_operator_and_record() -> None:
    topology = Topology()
    stream(topology).map_values(lambda value: 1 / value).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", 1)
        driver.pipe_input("in", "a", 0)
        with pytest.raises(RecordError) as failed:
            driver.read_output("out")
    said = (
        r"map-values-1 \(.*:\d+\) can't go on with the record at offset 1 of in-0: ZeroDivisionError: division by zero"
    )
    assert re.fullmatch(said, str(failed.value))


def test_bytes_that_are_no_json_name_the_source_and_a_wrong_object_the_sink() -> None:
    topology = Topology()
    stream(topology).filter(lambda key, value: True).to("out", value=LONG)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_bytes("in", b"a", b"no json")
        with pytest.raises(
            RecordError, match=r"source-0 \(.*\) can't go on with the record at offset 0 of in-0: it is no JSON"
        ):
            driver.read_output("out")
        driver.pipe_input("in", "a", "text")
        with pytest.raises(
            RecordError,
            match=r"sink-2 \(.*\) can't go on with the record at offset 1 of in-0: it should be a long, not",
        ):
            driver.read_output("out")


def test_dead_letters_carry_the_record_and_the_reason_and_the_rest_goes_on() -> None:
    topology = Topology(dead_letter="dead")
    inverse = stream(topology).map_values(lambda value: 1 / value)
    inverse.to("out", value=JSON)
    inverse.group_by(lambda key, value: key[0]).reduce(lambda a, b: a + b).to("sums", value=JSON)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", 2)
        driver.pipe_bytes("in", b"b", b"{")
        driver.pipe_input("in", "c", 0)
        driver.pipe_input("in", "", 4)
        driver.pipe_input("in", "d", 5)
        assert driver.read_output("out") == [("a", 0.5), ("", 0.25), ("d", 0.2)]
        assert driver.read_output("sums") == [("a", 0.5), ("d", 0.2)]
        letters = driver.read_records("dead")
    assert [(key, value) for key, value, _ in letters] == [(b"b", b"{"), (b"c", b"0"), (b"", b"4")]
    told = {name.rpartition(".")[2]: value.decode() for name, value in letters[1][2].items()}
    assert told == {
        "message": "map-values-1 can't go on with the record at offset 2 of in-0: ZeroDivisionError: division by zero",
        "operator": "map-values-1",
        "topic": "in",
        "partition": "0",
        "offset": "2",
    }


def sessions_of(records: Records, **store: str) -> dict[Any, Any]:
    topology = Topology()
    counted = stream(topology).group_by_key().windowed_by(session_window(6, grace=5)).count(**store)
    counted.to("out", value=LONG)
    found = {cut: last(run(topology, records, cut=cut)) for cut in (None, *range(1, len(records)))}
    assert all(one == found[None] for one in found.values())
    return found[None]


@pytest.mark.parametrize("store", [{}, {"store": "sessions"}], ids=["by itself", "asked from outside"])
def test_a_late_record_joins_no_session_that_is_over(store: dict[str, str]) -> None:
    """Stream time is 42, so sessions are over that end at 31 or before. The last but one record opens a session that
    reaches back behind the one that is over, and the last one joins that."""
    records: Records = [("in", "a", 1, 30), ("in", "a", 1, 41), ("in", "b", 1, 42), ("in", "a", 1, 36)]
    assert sessions_of(records, **store) == {
        Windowed("a", 30, 30): 1, Windowed("a", 36, 41): 2, Windowed("b", 42, 42): 1,
    }  # fmt: skip
    records += [("in", "a", 1, 31), ("in", "a", 1, 25)]
    assert sessions_of(records, **store) == {
        Windowed("a", 30, 30): 1, Windowed("a", 25, 41): 4, Windowed("b", 42, 42): 1,
    }  # fmt: skip


def test_a_session_takes_the_place_of_one_that_is_over_and_has_its_window() -> None:
    records: Records = [("in", "a", 1, 31), ("in", "a", 1, 31), ("in", "b", 1, 42), ("in", "a", 1, 31)]
    assert sessions_of(records) == {Windowed("a", 31, 31): 1, Windowed("b", 42, 42): 1}


def test_results_carry_the_times_of_their_records() -> None:
    topology = Topology("times")
    numbers = topology.stream("in")
    numbers.filter(lambda key, value: value > 1).map_values(lambda value: value * 2).to("mapped", value=JSON)
    numbers.group_by(lambda key, value: "all", key=STRING).count().to("counted", value=LONG)
    numbers.join(topology.table("rows"), lambda number, row: [number, row]).to("looked-up", value=JSON)
    others = topology.stream("others")
    numbers.join(others, lambda one, other: one + other, within(100)).to("met", value=JSON)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("rows", "a", "row", timestamp_ms=5)
        for value, time in ((1, 10), (2, 30), (3, 20)):
            driver.pipe_input("in", "a", value, timestamp_ms=time)
        driver.pipe_input("others", "a", 10, timestamp_ms=25)
        assert driver.read_timed_output("mapped") == [("a", 4, 30), ("a", 6, 20)]
        assert driver.read_timed_output("counted") == [("all", 3, 30)]
        assert driver.read_timed_output("looked-up") == [
            ("a", [1, "row"], 10),
            ("a", [2, "row"], 30),
            ("a", [3, "row"], 20),
        ]
        assert sorted(driver.read_timed_output("met")) == [("a", 11, 25), ("a", 12, 30), ("a", 13, 25)]


def test_a_record_whose_time_is_over_waits_for_a_partner_until_kafka_streams_looks_for_it() -> None:
    """The right one at 54 is over at 62. The left record at 64 has a longer reach, by which nobody is over yet, and the
    partner at 52 comes before anybody looks again."""
    topology = Topology()
    near = within(before=3, after=9, grace=5)
    right = topology.stream("other", value=STRING)
    topology.stream("in", value=STRING).outer_join(right, lambda one, other: f"{one},{other}", near).to(
        "out", value=STRING
    )
    records: Records = [("other", "c", "1", 54), ("in", "b", "1", 64), ("in", "c", "2", 52), ("in", "a", "1", 164)]
    for cut in (1, 2, 3):
        assert sorted(run(topology, records, cut=cut, value=STRING)) == [("b", "1,None"), ("c", "2,1")]


def test_a_joiner_that_fails_costs_its_own_record_alone() -> None:
    """The table is there from the batch before: rows and what is found for them are joined at once."""

    def joiner(left: Any, right: Any) -> Any:
        if left["v"] == 3:
            return next(iter(()))  # StopIteration, which looks like an end
        return int(right) / left["v"]

    topology = Topology(on_error="skip")
    stream(topology).join(topology.table("rows"), joiner).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("rows", "a", "6")
        driver.read_output("out")
        for key, value in (("a", 1), ("a", 0), ("b", 1), ("a", 3), ("a", 2)):
            driver.pipe_input("in", key, {"v": value})
        assert driver.read_output("out", value=JSON) == [("a", 6.0), ("a", 3.0)]
