"""State that is moved to another number of partitions: what comes out is what comes out without the move.

`BARNABAS_MOVES=300` draws more of them."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.checkpoint import NOTES, read_note, remember, state_name
from barnabas.pipelines.streams.checks import fingerprint
from barnabas.pipelines.streams.moving import move_state
from barnabas.pipelines.streams.placement import placement_of, write_placement
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.streams import (
    STRING,
    CheckpointError,
    Processor,
    StreamsError,
    Topology,
    TopologyTestDriver,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

MOVES = int(os.environ.get("BARNABAS_MOVES", "1"))
GRACE = 1_000_000  # nothing is late: stream time is a partition's, and partitions are what differs
END = 10_000_000
KEYS = [f"key-{number}" for number in range(17)]
NAMES = "abcd"
ON_DISK = ("tumbling", "outer join")


def lines(topology: Topology, topic: str = "in") -> Any:
    return topology.stream(topic, value=STRING)


def count(topology: Topology) -> Any:
    return lines(topology).group_by_key().count(store="counts").to_stream().map_values(str)


def reduce(topology: Topology) -> Any:
    return lines(topology).group_by_key().reduce(lambda old, new: f"{old}{new}"[-8:], store="last").to_stream()


def windows(made: Any, topology: Topology) -> Any:
    held = lines(topology).group_by_key().windowed_by(made).reduce(lambda old, new: old + new, store="windows")
    return held.to_stream().map(lambda key, value: (f"{key.key}@{key.start_ms}-{key.end_ms}", value))


def suppressed(made: Any, topology: Topology) -> Any:
    held = lines(topology).group_by_key().windowed_by(made).reduce(lambda old, new: old + new).suppress()
    return held.to_stream().map(lambda key, value: (f"{key.key}@{key.start_ms}-{key.end_ms}", value))


def windows_counted_again(topology: Topology) -> Any:
    held = lines(topology).group_by_key().windowed_by(tumbling(7, grace=GRACE)).count()
    again = held.to_stream().group_by_key().reduce(lambda old, new: max(old, new), store="again").to_stream()
    return again.map(lambda key, value: (f"{key.key}@{key.start_ms}", str(value)))


def joined_streams(kind: str, topology: Topology) -> Any:
    join = getattr(lines(topology), kind)
    return join(lines(topology, "other"), lambda left, right: f"{left}+{right}", within(9, grace=GRACE))


def joined_tables(kind: str, topology: Topology) -> Any:
    left, right = topology.table("in", value=STRING), topology.table("other", value=STRING)
    return getattr(left, kind)(right, lambda one, other: f"{one}+{other}").to_stream()


def joined_table(topology: Topology) -> Any:
    table = topology.table("other", value=STRING)
    return lines(topology).left_join(table, lambda one, other: f"{one}+{other}")


def foreign_key(kind: str, topology: Topology) -> Any:
    rows, names = topology.table("in", value=STRING), topology.table("names", value=STRING)
    return getattr(rows, kind)(names, lambda value: value[:1], lambda one, other: f"{one}+{other}").to_stream()


def global_table(topology: Topology) -> Any:
    names = topology.global_table("names", value=STRING)
    joined = lines(topology).join(names, lambda one, other: f"{one}+{other}", key=lambda key, value: (value or "-")[:1])
    return joined


def repartitioned(topology: Topology) -> Any:
    return (
        lines(topology)
        .group_by(lambda key, value: (value or "-")[:1])
        .count(store="firsts")
        .to_stream()
        .map_values(str)
    )


def grouped_table(topology: Topology) -> Any:
    table = topology.table("in", value=STRING).group_by(lambda key, value: value[:1])
    return table.count(store="of-table").to_stream().map_values(str)


TOPOLOGIES: dict[str, Callable[[Topology], Any]] = {
    "count": count,
    "reduce": reduce,
    "tumbling": functools.partial(windows, tumbling(7, grace=GRACE)),
    "hopping": functools.partial(windows, hopping(9, advance=4, grace=GRACE)),
    "sliding": functools.partial(windows, sliding(6, grace=GRACE)),
    "session": functools.partial(windows, session_window(3, grace=GRACE)),
    "suppressed": functools.partial(suppressed, tumbling(7, grace=GRACE)),
    "suppressed sessions": functools.partial(suppressed, session_window(3, grace=GRACE)),
    "held back": lambda topology: topology.table("in", value=STRING).suppress(time_limit=5).to_stream(),
    "windows counted again": windows_counted_again,
    "join": functools.partial(joined_streams, "join"),
    "left join": functools.partial(joined_streams, "left_join"),
    "outer join": functools.partial(joined_streams, "outer_join"),
    "tables": functools.partial(joined_tables, "join"),
    "tables, outer": functools.partial(joined_tables, "outer_join"),
    "stream and table": joined_table,
    "foreign key": functools.partial(foreign_key, "join_by"),
    "foreign key, left": functools.partial(foreign_key, "left_join_by"),
    "global table": global_table,
    "repartitioned": repartitioned,
    "grouped table": grouped_table,
}


def build(name: str, **settings: Any) -> Topology:
    topology = Topology(**settings)
    TOPOLOGIES[name](topology).to("out", key=STRING, value=STRING)
    return topology


def outputs(name: str, seed: int, counts: list[int]) -> dict[Any, list[Any]]:
    """The rows of each key, from one number of partitions to the next; those of one moment in any order."""
    chance = random.Random(seed)
    on_disk = name in ON_DISK and seed % 2 == 0  # opening databases takes its time
    topology = build(name, state_cache_bytes=0 if on_disk else 1 << 28)
    reads = {topic for _, source in topology.graph.sources() for topic in source.topics}
    reads |= {table.topic for table in topology.graph.global_tables}
    time = 0
    found: dict[Any, list[Any]] = {}
    with TopologyTestDriver(topology, partitions=counts[0]) as driver:
        for at, partitions in enumerate(counts):
            collect(driver, found)  # a batch ends here, with a move and without
            if at and partitions != counts[at - 1]:
                driver.rescale(partitions)
            for _ in range(60):
                time += chance.randrange(3)
                topic = chance.choice(["in", "in", "other", "names"])
                key = chance.choice(list(NAMES) if topic == "names" else KEYS)
                value = None if chance.random() < 0.1 and name != "join" else chance.choice(NAMES) + str(time)
                cut = chance.random() < 0.1
                if topic in reads:
                    driver.pipe_input(topic, key, value, timestamp_ms=time)
                if cut:
                    collect(driver, found)
        for number in range(40):  # stream time comes to its end in every partition
            for topic in reads & {"in", "other"}:
                driver.pipe_input(topic, f"end-{number}", "end", timestamp_ms=END)
        collect(driver, found)
    return {key: sorted(rows, key=lambda row: (row[1], str(row[0]))) for key, rows in found.items()}


def collect(driver: TopologyTestDriver, found: dict[Any, list[Any]]) -> None:
    for key, value, time in driver.read_timed_output("out", key=STRING, value=STRING):
        if "end" not in str(key) and "end" not in str(value):
            found.setdefault(key, []).append((value, time))


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_results_are_those_of_a_topology_that_was_not_moved(name: str) -> None:
    for seed in range(MOVES):
        chance = random.Random(f"{name} {seed}")
        counts = [chance.randrange(1, 7) for _ in range(3)]
        assert outputs(name, seed, counts) == outputs(name, seed, [counts[0]] * 3), f"seed {seed}, {counts}"


def test_stream_time_of_a_moved_partition_is_the_latest_of_those_its_keys_come_from() -> None:
    topology = Topology()
    held = lines(topology).group_by_key().windowed_by(tumbling(10, grace=0)).count(store="windows")
    held.to_stream().map(lambda key, value: (key.key, str(value))).to("out", key=STRING, value=STRING)
    with TopologyTestDriver(topology, partitions=2) as driver:
        driver.pipe_input("in", "key-0", "x", timestamp_ms=5)
        driver.pipe_bytes("in", b"key-1", b"x", timestamp_ms=500, partition=driver._partition_of("in", b"key-1"))
        ahead, behind = (driver._partition_of("in", key) for key in (b"key-1", b"key-0"))
        assert ahead != behind
        assert len(driver.read_output("out", key=STRING, value=STRING)) == 2
        driver.rescale(1)
        driver.pipe_input("in", "key-0", "y", timestamp_ms=6)  # its window was closed by the other partition's time
        assert driver.read_output("out", key=STRING, value=STRING) == []


def test_state_that_lies_elsewhere_than_its_keys_say_is_not_moved() -> None:
    with TopologyTestDriver(build("count"), partitions=3) as driver:
        where = driver._partition_of("in", b"key-0")
        driver.pipe_bytes("in", b"key-0", b"x", partition=(where + 1) % 3)
        driver.read_output("out", key=STRING, value=STRING)
        with pytest.raises(CheckpointError, match="key 'key-0' of store counts lies in partition"):
            driver.rescale(4)
        driver.pipe_bytes("in", b"key-0", b"x", partition=(where + 1) % 3)
        assert driver.read_output("out", key=STRING, value=STRING) == [("key-0", "2")]  # nothing is lost


def test_stores_of_processors_are_told_to_be_unmovable() -> None:
    class Kept(Processor):
        pass

    topology = Topology()
    lines(topology).process(Kept, stores=["mine"]).to("out")
    with (
        TopologyTestDriver(topology, partitions=2) as driver,
        pytest.raises(StreamsError, match=r"store mine of process-1 \(.*\) can't be moved to other partitions"),
    ):
        driver.rescale(3)


def checkpoint(tmp_path: Path, topology: Topology, partitions: int) -> LocalDirectory:
    directory = LocalDirectory(tmp_path, synced=False)
    remember(directory, fingerprint(topology.graph, {"in": partitions}))
    write_placement(topology.graph, directory)
    return directory


def test_a_checkpoint_that_is_half_way_through_a_batch_is_left_alone(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path, build("count"), 2)
    directory.write("offsets/4", b"")
    with pytest.raises(CheckpointError, match=r"batch 4 of .* was begun and not finished"):
        move_state(directory, 3)
    assert read_note(directory, "topology.json")["partitions"] == {"in": 2}


def test_the_old_state_counts_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.pipelines.streams import moving
    from barnabas.pipelines.streams.state.versions import PartitionState

    directory = checkpoint(tmp_path, build("count"), 1)
    state = PartitionState(directory.under(NOTES, "state", "0", "0"))
    for key in KEYS:
        state.store("counts").put(key, 1)
    state.save(1)

    def fail(*_: Any) -> None:
        raise OSError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(moving, "write_note", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            move_state(directory, 2, version=1)
    assert state_name(directory) == "state"
    assert sorted(directory.under(NOTES).names()) == ["placement", "state", "state-2", "topology.json"]
    moved = move_state(directory, 2, version=1)
    assert moved.entries == len(KEYS)
    assert sorted(directory.under(NOTES).names()) == ["placement", "state-2", "topology.json"]
    assert (read_note(directory, "topology.json")["partitions"], state_name(directory)) == ({"in": 2}, "state-2")
    move_state(directory, 3, version=1)
    assert sorted(directory.under(NOTES).names()) == ["placement", "state-3", "topology.json"]


def test_topics_that_meet_have_one_number_of_partitions(tmp_path: Path) -> None:
    topology = build("join")
    directory = LocalDirectory(tmp_path, synced=False)
    remember(directory, fingerprint(topology.graph, {"in": 2, "other": 2}))
    write_placement(topology.graph, directory)
    with pytest.raises(StreamsError, match="needs topics of the same number of partitions, not in 3 and other 2"):
        move_state(directory, {"in": 3})
    with pytest.raises(StreamsError, match="does not read topic else: it reads in, other"):
        move_state(directory, {"else": 3})


def test_what_is_known_of_stores_covers_every_operator() -> None:
    for name in TOPOLOGIES:
        assert all(one.shape is not None for one in placement_of(build(name).graph).stores), name


def test_a_topic_that_grew_is_told_with_what_to_do(tmp_path: Path) -> None:
    topology = build("count")
    directory = checkpoint(tmp_path, topology, 2)
    with pytest.raises(CheckpointError, match=r"in had 2 partitions and has 5: .*rescale .* --partitions 5` moves"):
        remember(directory, fingerprint(topology.graph, {"in": 5}))
