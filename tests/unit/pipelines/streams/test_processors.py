"""The Processor API in the test driver: forward, stores, punctuation, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.streams import (
    JSON,
    LONG,
    STRING,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    RecordError,
    StreamsError,
    Topology,
    TopologyError,
    TopologyTestDriver,
)


class Base(Processor):
    def init(self, context: ProcessorContext) -> None:
        self.context = context


class Numbered(Base):
    """Each value with its number among those of its key."""

    def process(self, record: Record[Any, Any]) -> None:
        store = self.context.store("numbers")
        number = store.get(record.key, 0) + 1
        store.put(record.key, number)
        self.context.forward(record.with_value([number, record.value]))


def test_a_processor_remembers_in_its_stores() -> None:
    topology = Topology()
    topology.stream("in").process(Numbered, stores=["numbers"]).to("out")
    with TopologyTestDriver(topology, partitions=2) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=3)
        driver.pipe_input("in", "a", "y", timestamp_ms=2)
        assert driver.read_timed_output("out") == [("a", [1, "x"], 3), ("a", [2, "y"], 2)]
        driver.restart()
        driver.pipe_input("in", "a", "z")
        driver.pipe_input("in", "b", "z")
        assert sorted(driver.read_output("out")) == [("a", [3, "z"]), ("b", [1, "z"])]
        assert driver.store("numbers").get("a") == 3


def test_a_batch_that_is_done_again_finds_what_it_found() -> None:
    topology = Topology()
    topology.stream("in").process(Numbered, stores=["numbers"]).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", "x")
        driver.read_output("out")
        driver.replay()
        driver.pipe_input("in", "a", "x")
        assert driver.read_output("out") == [("a", [1, "x"])]


class Mapped(Base):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_key(record.value).with_timestamp(record.timestamp_ms + 1))
        self.context.forward(Record(None, dict(record.headers)["h"].decode(), 7))


def test_records_are_forwarded_with_other_keys_and_times_and_the_headers_they_came_with() -> None:
    topology = Topology()
    topology.stream("in", value=STRING).process(Mapped).to("out", key=STRING, value=STRING)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "a", "x", timestamp_ms=3, headers=[("h", b"head")])
        assert driver.read_timed_output("out") == [("x", "x", 4), (None, "head", 7)]
        driver.pipe_input("in", "a", "x", headers=[("h", b"head")])
        assert [headers for _, _, headers in driver.read_records("out")] == [{"h": b"head"}, {"h": b"head"}]


class Ticking(Base):
    kind = PunctuationType.STREAM_TIME

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule(10, self.tick, self.kind)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(self.context.stream_time_ms))

    def tick(self, now_ms: int) -> None:
        self.context.forward(Record("tick", now_ms, now_ms))


class TickingByTheWall(Ticking):
    kind = PunctuationType.WALL_CLOCK_TIME


@pytest.mark.parametrize("cuts", [set(), {2}, {1, 2, 3, 4, 5}])
def test_punctuators_run_after_the_record_that_moves_stream_time_on(cuts: set[int]) -> None:
    """Also one that does not come to the processor; and once, however far time moves."""
    topology = Topology()
    topology.stream("in").filter(lambda key, value: value != "skipped").process(Ticking).to("out", value=LONG)
    found: list[Any] = []
    with TopologyTestDriver(topology) as driver:
        for number, time in enumerate((3, 9, 12, 5, 20, 55)):
            if number in cuts:
                found += driver.read_output("out")
                driver.restart()
            driver.pipe_input("in", "k", "skipped" if time == 20 else "x", timestamp_ms=time)
        found += driver.read_output("out")
    assert found == [
        ("k", 3),
        ("tick", 3),  # as in Kafka Streams the first one is at once
        ("k", 9),
        ("k", 12),
        ("tick", 12),
        ("k", 12),
        ("tick", 20),
        ("k", 55),
        ("tick", 55),
    ]


def test_punctuators_by_wall_clock_run_at_the_end_of_a_batch() -> None:
    topology = Topology()
    topology.stream("in").process(TickingByTheWall).filter(lambda key, value: key == "tick").to("out", value=LONG)
    found = []
    with TopologyTestDriver(topology, wall_clock_ms=1000) as driver:
        for _ in range(5):
            driver.pipe_input("in", "k", "x")
            driver.pipe_input("in", "k", "x")
            found.append([row.value for row in driver.read_output("out")])
            driver.restart()
            driver.advance_wall_clock(7)
    assert found == [[], [], [1014], [1021], []]


class Once(Ticking):
    def init(self, context: ProcessorContext) -> None:
        Base.init(self, context)
        self.schedule = context.schedule(10, self.tick)

    def tick(self, now_ms: int) -> None:
        super().tick(now_ms)
        self.schedule.cancel()


def test_a_punctuator_that_is_cancelled_stays_so() -> None:
    topology = Topology()
    topology.stream("in").process(Once).filter(lambda key, value: key == "tick").to("out", value=LONG)
    with TopologyTestDriver(topology) as driver:
        for time in (5, 25, 45):
            driver.pipe_input("in", "k", "x", timestamp_ms=time)
            driver.restart()
        assert driver.read_output("out") == [("tick", 5)]


def test_what_a_punctuator_forwards_stands_behind_all_that_comes_of_the_record() -> None:
    topology = Topology()
    stream = topology.stream("in")
    ticks = stream.process(Ticking).filter(lambda key, value: key == "tick")
    ticks.merge(stream.flat_map_values(lambda value: [value, value])).to("out", value=JSON)
    with TopologyTestDriver(topology) as driver:
        for time in (3, 12):
            driver.pipe_input("in", "k", time, timestamp_ms=time)
        assert [row.value for row in driver.read_output("out")] == [3, 3, 3, 12, 12, 12]
        assert driver.read_output("out") == []


class Failing(Base):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        if record.value == 0:
            raise ValueError("nothing there")


def test_a_processor_that_fails_names_itself_and_the_record() -> None:
    topology = Topology()
    topology.stream("in").process(Failing).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", 0)
        with pytest.raises(RecordError, match=r"process-1 \(.*\) can't go on .* offset 0 of in-0: ValueError"):
            driver.read_output("out")


def test_of_a_dead_letter_nothing_is_forwarded() -> None:
    topology = Topology(dead_letter="dead")
    topology.stream("in").process(Failing).to("out")
    with TopologyTestDriver(topology) as driver:
        for value in (1, 0, 2):
            driver.pipe_input("in", "k", value)
        assert driver.read_output("out") == [("k", 1), ("k", 2)]
        assert [value for _, value, _ in driver.read_records("dead")] == [b"0"]


class FailingTick(Ticking):
    def tick(self, now_ms: int) -> None:
        raise ValueError("no tick")


class Forgetful(Base):
    def init(self, context: ProcessorContext) -> None:
        context.store("numbers")


class Strange(Base):
    def process(self, record: Record[Any, Any]) -> None:
        if record.value == "store":
            self.context.store("other")
        elif record.value == "schedule":
            self.context.schedule(10, print)
        elif record.value == "forward":
            self.context.forward(("k", "v"))  # type: ignore[arg-type]
        else:
            self.context.forward(record.with_key("other"))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("store", "process_values() was not given a store named other: mine"),
        ("schedule", "schedule() is called in init(), where every batch finds its schedules again"),
        ("forward", "forward() needs a Record, not ('k', 'v')"),
        ("key", "process_values() keeps keys: process() is for records that get another one"),
    ],
)
def test_what_a_processor_can_not_do_is_told(value: str, said: str) -> None:
    topology = Topology()
    topology.stream("in", value=STRING).process_values(Strange, stores=["mine"]).to("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", value)
        with pytest.raises(StreamsError) as told:
            driver.read_output("out")
    assert str(told.value).endswith(said)


def test_a_punctuator_that_fails_is_told_with_its_time() -> None:
    topology = Topology()
    topology.stream("in").process(FailingTick).to("out")
    other = Topology()
    other.stream("in").process(Forgetful).to("out")
    with TopologyTestDriver(other) as driver:
        driver.pipe_input("in", "k", 1)
        with pytest.raises(StreamsError, match=r"process-1 .* was not given a store named numbers: it has none"):
            driver.read_output("out")
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", 1, timestamp_ms=4)
        with pytest.raises(StreamsError, match=r"process-1 \(.*\) can't go on at time 4 ms: ValueError: no tick"):
            driver.read_output("out")


def test_stores_of_processors_are_named_once_and_processors_are_made_without_arguments() -> None:
    topology = Topology()
    stream = topology.stream("in")
    stream.process(Numbered, stores=["numbers"])
    with pytest.raises(TopologyError, match="there are two stores named numbers"):
        stream.process(Numbered, stores=["numbers"])
    with pytest.raises(TopologyError, match=r"process\(\) needs a function without arguments, not 3"):
        stream.process(3)  # type: ignore[arg-type]


def test_a_store_of_a_processor_lists_its_keys_in_order() -> None:
    seen: list[Any] = []

    class Listing(Base):
        def process(self, record: Record[Any, Any]) -> None:
            store = self.context.store("kept")
            assert store.put_if_absent(record.key, record.value) is None
            assert store.put_if_absent(record.key, 99) == record.value
            if len(store) == 3:
                seen.extend([list(store.range("a", "b")), store.delete("b"), list(store.all()), "b" in store])

    topology = Topology()
    topology.stream("in").process(Listing, stores=["kept"])
    with TopologyTestDriver(topology) as driver:
        for number, key in enumerate("cab"):
            driver.pipe_input("in", key, number)
        driver.restart()
    assert seen == [[("a", 1), ("b", 2)], 2, [("a", 1), ("c", 0)], False]
