"""The same records through a topology of ours and through Kafka Streams' own, run by its TopologyTestDriver in Java.

Random records: late ones, out of order, tombstones, without a key. Kafka Streams takes them one by one; ours takes them
in random batches and forgets between them all but its files. Records of several topics that are not in order of time
are a batch each, because a batch merges topics by time. Some begin at the time 0, and many have the same time.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.streams import (
    STRING,
    Topology,
    TopologyTestDriver,
    Windowed,
    hopping,
    session_window,
    sliding,
    tumbling,
    with_context,
    within,
)
from tests.support import reference_libs


def named_module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chains = named_module(Path(__file__).parents[2] / "unit" / "pipelines" / "streams" / "chains.py")
CHAINS = int(os.environ.get("BARNABAS_CHAINS", "60"))
CHAINS_SEED = int(os.environ.get("BARNABAS_SEED", "9"))
CHAINS_EMIT = os.environ.get("BARNABAS_EMIT", "batch")
PROGRAM = Path(__file__).parents[2] / "reference" / "java" / "Topologies.java"
SEEDS = range(3)
CHANGE_SEEDS = range(int(os.environ.get("BARNABAS_CHANGE_SEEDS", "2")))
RECORDS = 24
GRACE = 5
TUMBLING, HOPPING = tumbling(10, grace=GRACE), hopping(10, 4, grace=GRACE)
SLIDING, SESSION = sliding(8, grace=GRACE), session_window(6, grace=GRACE)
NEAR = within(before=3, after=9, grace=GRACE)
pytestmark = pytest.mark.timeout(300)


Record = tuple[str, str | None, str | None, int]
Result = tuple[str | None, str | None, int]
Numbered = tuple[str | None, str | None, int, int]  # and the record that brought it about
Build = Callable[[Topology], Any]


@pytest.fixture(scope="module")
def kafka_streams() -> Iterator[Callable[[str, list[Record]], list[Numbered]]]:
    try:
        classpath = f"{reference_libs.streams_test_libs()}/*"
        command = [reference_libs.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath]
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(f"Kafka Streams is not available: {reason}")
    process = subprocess.Popen(
        [*command, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    def ask(topology: str, records: list[Record]) -> list[Numbered]:
        stdin.write(json.dumps({"topology": topology, "records": records}) + "\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, f"Kafka Streams ended at {topology} with {process.wait(30)}"
        return [(key, value, time, number) for key, value, time, number in json.loads(answer)]

    with process, stdin:
        yield ask


def texts(topology: Topology, topic: str = "in") -> Any:
    return topology.stream(topic, value=STRING)


def rows(topology: Topology, topic: str = "in") -> Any:
    return topology.table(topic, value=STRING)


def grouped(topology: Topology) -> Any:
    return texts(topology).group_by_key()


def timed(topology: Topology) -> Any:
    """By the time that a function takes from the record, which may be negative, or none if there is no value."""
    by_value = with_context(lambda key, value, context: context.timestamp_ms + 6 * int(value) - 10)
    return topology.stream("in", value=STRING, timestamp=by_value)


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def pair(left: Any, right: Any) -> str:
    return f"{text(left)},{text(right)}"


def together(old: str, new: str) -> str:
    return old + new


def concatenated(key: str, value: str, found: str) -> str:
    return found + value


def marked(key: str, value: Any) -> str:
    return f"{text(value)}!"


def loud(value: str | None) -> str | None:
    return None if value is None else f"{value}!"


def branched(topology: Topology) -> Any:
    one, two = texts(topology).branch(lambda key, value: value == "1", lambda key, value: value is not None)
    return one.map_values(marked).merge(two.map_values(marked))


def cogrouped(topology: Topology) -> Any:
    both = grouped(topology).cogroup(concatenated)
    other = texts(topology, "other").group_by_key()
    return both.cogroup(other, lambda key, value, found: f"{found}-{value}")


def begun() -> str:
    return "="


def joined(key: str, one: str, other: str) -> str:
    return one + other


def with_itself(topology: Topology) -> Any:
    stream = texts(topology)
    return stream.join(stream, pair, NEAR)


def rekeyed(topology: Topology, topic: str = "in") -> Any:
    return texts(topology, topic).select_key(lambda key, value: value)


def by_value(table: Any) -> Any:
    return table.map_values(lambda key, value: [key, value]).group_by(lambda key, value: value[1])


def not_one(key: str, value: str) -> bool:
    return value != "1"


def not_three(value: str) -> str | None:
    return None if value == "3" else value


STREAMS: dict[str, Build] = {
    "filter": lambda t: texts(t).filter(lambda key, value: value != "1"),
    "map": lambda t: texts(t).map(lambda key, value: (value, key)),
    "flat-map": lambda t: texts(t).flat_map(lambda key, value: [(key, value), (value, "again")]),
    "select-key": lambda t: texts(t).select_key(lambda key, value: f"{text(value)}!"),
    "branch": branched,
    "merge": lambda t: texts(t).merge(texts(t, "other")),
    "filter-not": lambda t: texts(t).filter_not(lambda key, value: value == "1"),
    "map-values": lambda t: texts(t).map_values(lambda key, value: text(key) + text(value)),
    "flat-map-values": lambda t: texts(t).flat_map_values(lambda value: [] if value is None else [value, f"{value}!"]),
    "peek": lambda t: texts(t).peek(lambda key, value: None),
    "repartition": lambda t: (  # Kafka Streams drops records without a key there
        texts(t)
        .select_key(lambda key, value: None if value == "3" else key)
        .repartition(key=STRING)
        .filter(lambda key, value: key is not None)
    ),
    "through": lambda t: texts(t).filter(not_one).through("between").map_values(marked),
    "own-time": lambda t: timed(t).map_values(marked),
    "several-topics": lambda t: t.stream("in", "other", value=STRING),
    "streams-self": with_itself,
    "streams-at-once": lambda t: texts(t).outer_join(texts(t, "other"), pair, within(0, grace=GRACE)),
    "streams-rekeyed": lambda t: rekeyed(t).left_join(rekeyed(t, "other"), pair, NEAR),
    "stream-aggregate": lambda t: texts(t).left_join(texts(t, "other").group_by_key().reduce(together), pair),
    "stream-filtered-table": lambda t: texts(t).left_join(rows(t, "other").filter(not_one).map_values(loud), pair),
    "streams-inner": lambda t: texts(t).join(texts(t, "other"), pair, NEAR),
    "streams-left": lambda t: texts(t).left_join(texts(t, "other"), pair, NEAR),
    "streams-outer": lambda t: texts(t).outer_join(texts(t, "other"), pair, NEAR),
    "stream-table": lambda t: texts(t).join(rows(t, "other"), pair),
    "stream-table-left": lambda t: texts(t).left_join(rows(t, "other"), pair),
    "stream-global": lambda t: texts(t).join(t.global_table("other", value=STRING), pair, key=lambda key, value: value),
    "stream-global-left": lambda t: texts(t).left_join(
        t.global_table("other", value=STRING), pair, key=lambda key, value: value
    ),
}

TABLES: dict[str, Build] = {
    "count": lambda t: grouped(t).count().map_values(str),
    "reduce": lambda t: grouped(t).reduce(together),
    "aggregate": lambda t: grouped(t).aggregate(str, concatenated),
    "aggregate-to-nothing": lambda t: grouped(t).aggregate(
        str, lambda key, value, found: None if len(found) > 2 else found + value
    ),
    "regrouped": lambda t: texts(t).group_by(lambda key, value: value).count().map_values(str),
    "cogroup": lambda t: cogrouped(t).aggregate(str),
    "tumbling": lambda t: grouped(t).windowed_by(TUMBLING).reduce(together),
    "hopping": lambda t: grouped(t).windowed_by(HOPPING).reduce(together),
    "sliding": lambda t: grouped(t).windowed_by(SLIDING).reduce(together),
    "session": lambda t: grouped(t).windowed_by(SESSION).reduce(together),
    "tumbling-closed": lambda t: grouped(t).windowed_by(TUMBLING).reduce(together).suppress(),
    "hopping-closed": lambda t: grouped(t).windowed_by(HOPPING).reduce(together).suppress(),
    "sliding-closed": lambda t: grouped(t).windowed_by(SLIDING).reduce(together).suppress(),
    "session-closed": lambda t: grouped(t).windowed_by(SESSION).reduce(together).suppress(),
    "tumbling-own-time": lambda t: timed(t).group_by_key().windowed_by(TUMBLING).reduce(together),
    "tumbling-count": lambda t: grouped(t).windowed_by(TUMBLING).count().map_values(str),
    "hopping-count": lambda t: grouped(t).windowed_by(HOPPING).count().map_values(str),
    "sliding-count": lambda t: grouped(t).windowed_by(SLIDING).count().map_values(str),
    "session-count": lambda t: grouped(t).windowed_by(SESSION).count().map_values(str),
    "tumbling-aggregate": lambda t: grouped(t).windowed_by(TUMBLING).aggregate(begun, concatenated),
    "sliding-aggregate": lambda t: grouped(t).windowed_by(SLIDING).aggregate(begun, concatenated),
    "session-aggregate": lambda t: grouped(t).windowed_by(SESSION).aggregate(begun, concatenated, merger=joined),
    "tumbling-cogroup": lambda t: cogrouped(t).windowed_by(TUMBLING).aggregate(begun),
    "session-cogroup": lambda t: cogrouped(t).windowed_by(SESSION).aggregate(begun, merger=joined),
    "tumbling-count-closed": lambda t: grouped(t).windowed_by(TUMBLING).count().suppress().map_values(str),
    "session-count-closed": lambda t: grouped(t).windowed_by(SESSION).count().suppress().map_values(str),
    "windows-regrouped": lambda t: (
        grouped(t).windowed_by(TUMBLING).reduce(together).group_by(lambda key, value: key.key).count().map_values(str)
    ),
    "table-limited": lambda t: rows(t).suppress(time_limit=7),
    "table-limited-few": lambda t: rows(t).map_values(loud).suppress(time_limit=20, max_records=2),
    "count-limited": lambda t: grouped(t).count().suppress(time_limit=7).map_values(str),
    "tumbling-limited": lambda t: grouped(t).windowed_by(TUMBLING).reduce(together).suppress(time_limit=3),
    "table-filter-not": lambda t: rows(t).filter_not(lambda key, value: value == "1"),
    "table-reduce": lambda t: (
        rows(t)
        .map_values(lambda key, value: [key, value])
        .group_by(lambda key, value: value[1])
        .reduce(lambda old, new: [old[0] + new[0]], lambda old, gone: [old[0].replace(gone[0], "", 1)])
        .map_values(lambda value: value[0])
    ),
    "table-filter-regrouped": lambda t: by_value(rows(t).filter(not_one)).count().map_values(str),
    "tables-chain": lambda t: rows(t).left_join(rows(t, "other"), pair).outer_join(rows(t, "third"), pair),
    "tables-filtered": lambda t: (
        rows(t)
        .filter(not_one)
        .outer_join(rows(t, "other").map_values(loud), pair)
        .filter(lambda key, value: "2" not in value)
    ),
    "tables-regrouped": lambda t: by_value(rows(t).join(rows(t, "other"), pair)).count().map_values(str),
    "foreign-nobody": lambda t: rows(t).left_join_by(rows(t, "other"), not_three, pair),
    "foreign-nobody-inner": lambda t: rows(t).join_by(rows(t, "other"), not_three, pair),
    "foreign-filtered": lambda t: (
        rows(t)
        .filter(lambda key, value: value != "2")
        .join_by(rows(t, "other").filter(not_one), lambda value: value, pair)
    ),
    "table": rows,
    "table-filter": lambda t: rows(t).filter(lambda key, value: value != "1"),
    "table-map": lambda t: rows(t).map_values(lambda value: f"{value}!"),
    "table-regrouped": lambda t: rows(t).group_by(lambda key, value: value).count().map_values(str),
    "table-aggregate": lambda t: (
        rows(t)
        .map_values(lambda key, value: [key, value])
        .group_by(lambda key, value: value[1])
        .aggregate(
            str,
            lambda key, value, found: found + value[0],
            lambda key, value, found: found.replace(value[0], "", 1),
        )
    ),
    "tables-inner": lambda t: rows(t).join(rows(t, "other"), pair),
    "tables-left": lambda t: rows(t).left_join(rows(t, "other"), pair),
    "tables-outer": lambda t: rows(t).outer_join(rows(t, "other"), pair),
    "foreign": lambda t: rows(t).join_by(rows(t, "other"), lambda value: value, pair),
    "foreign-left": lambda t: rows(t).left_join_by(rows(t, "other"), lambda value: value, pair),
    "to-table": lambda t: (
        texts(t, "other")
        .map_values(lambda value: None if value is None else f"{value}!")
        .to_table()
        .join(rows(t), pair)
    ),
}
ALONE = {"stream-global-left", "own-time", "tumbling-own-time"}  # not beside the others in one topology
LONELY = {"streams-left", "streams-outer", "streams-rekeyed", "streams-at-once"}  # some records later, see UNLIKE
# Kafka Streams shows a sliding window twice that ends with one record and begins behind another, and what a join of
# tables gives again when nothing became of nothing.
TOLD_AGAIN = {"sliding", "sliding-count", "sliding-aggregate", "tables-chain"}
WINDOWED = (
    "tumbling",
    "hopping",
    "sliding",
    "session",
    "windows",
)  # see docs/streams.md: they leave records without value out
TIMES_TOGETHER = ("tumbling-cogroup", "session-cogroup")  # Kafka Streams has a stream time for each of their streams
BY_VALUE = ("stream-global", "foreign")


def random_records(name: str, topics: list[str], chance: random.Random, *, in_order: bool) -> list[Record]:
    """Times go forward by and by, and back now and then. In between, where a record is late for a sliding window or a
    session and not for the next, docs/streams.md tells what differs."""
    made: list[Record] = []
    now = latest = chance.choice((0, 100))
    steps = (1, 1, 2, 3, 7, 15) if in_order else (0, 0, 1, 2, 3, 7, 15)
    for _ in range(RECORDS):
        now += chance.choice(steps)
        late = chance.choice((1, 2, 3, 4, 40)) if name.startswith("sliding") else chance.randrange(25)
        time = now if in_order or chance.random() < 0.6 else max(latest - late, 0)
        latest = max(time, latest)
        topic = chance.choice(topics)
        key = chance.choice(["1", "2", "3"] if name.startswith(BY_VALUE) and topic == "other" else ["a", "b", "c"])
        nothing = chance.random()
        tombstone = nothing > 0.85 and not name.startswith(WINDOWED)
        made.append((topic, None if nothing < 0.08 else key, None if tombstone else chance.choice("123"), time))
    if name.startswith(("sliding", "session")) and name.endswith("closed"):
        made.append(("in", "a", "1", latest + 100))  # Kafka Streams shows a window a moment before it is over
    if name.startswith("streams-"):
        made.append(("in", "a", "1", latest + 100))  # it may show a lonely record some records after its time
    if name.startswith("stream-global"):
        made.sort(key=lambda one: one[0] != "other")  # its changes are seen from the next batch on
    return made


def ours(build: Build, records: list[Record], cuts: set[int], emit: str = "batch") -> list[Result]:
    topology = Topology(emit=emit)
    build(topology).to("out", value=STRING)
    found: list[Any] = []
    with TopologyTestDriver(topology) as driver:
        for number, (topic, key, value, time) in enumerate(records):
            if number in cuts:
                found += driver.read_timed_output("out")
                driver.restart()
            driver.pipe_input(topic, key, value, timestamp_ms=time)
        found += driver.read_timed_output("out")
    return [(named(key), value, time) for key, value, time in found]


def named(key: Any) -> str | None:
    return f"{key.key}@{key.start_ms}@{key.end_ms}" if isinstance(key, Windowed) else key


def table(found: list[Result]) -> dict[Any, Any]:
    last = {key: value for key, value, _ in found}
    return {key: value for key, value in last.items() if value is not None}


def drawn(name: str, build: Build, seed: int) -> tuple[list[Record], set[int]]:
    """Records, and where batches begin."""
    made = Topology()
    build(made).to("out")
    topics = [*made.graph.topics(), *(one.topic for one in made.graph.global_tables)]
    topics = [topic for topic in topics if topic != "between"]
    chance = random.Random(f"{name} {seed}")
    in_order = len(topics) > 1 and (seed % 2 == 0 or name in TIMES_TOGETHER)
    records = random_records(name, topics, chance, in_order=in_order)
    one_by_one = len(topics) > 1 and not in_order
    return records, set(range(RECORDS)) if one_by_one else {chance.randrange(RECORDS) for _ in range(3)}


@pytest.mark.parametrize("name", [*STREAMS, *TABLES])
def test_results_are_those_of_kafka_streams(name: str, kafka_streams: Any) -> None:
    build = STREAMS.get(name) or TABLES[name]
    for seed in SEEDS:
        records, cuts = drawn(name, build, seed)
        theirs, mine = [row[:3] for row in kafka_streams(name, records)], ours(build, records, cuts)
        if name in STREAMS:
            missing, more = Counter(theirs) - Counter(mine), Counter(mine) - Counter(theirs)
            assert not missing + more, f"seed {seed}: without {missing}, with {more}, of {records}"
        else:
            assert table(mine) == table(theirs), f"seed {seed}: {records}"


@pytest.mark.parametrize("name", [*STREAMS, *TABLES])
def test_every_change_is_shown_as_kafka_streams_shows_it_without_a_cache(name: str, kafka_streams: Any) -> None:
    """Rows of a key in their order, each with its value and time."""
    build = STREAMS.get(name) or TABLES[name]
    for seed in CHANGE_SEEDS:
        records, cuts = drawn(name, build, seed)
        theirs, mine = [row[:3] for row in kafka_streams(name, records)], ours(build, records, cuts, "changes")
        assert in_comparison(name, mine) == in_comparison(name, theirs), f"seed {seed}: {records}"


def in_comparison(name: str, rows: list[Result]) -> Any:
    by_key = chains.by_key(without_needless_tombstones(rows) if name in TABLES else rows)
    if name in LONELY:
        return {key: Counter(found) for key, found in by_key.items()}
    if name in TOLD_AGAIN:
        return {
            key: [value for value, _ in itertools.groupby(row[0] for row in found)] for key, found in by_key.items()
        }
    return by_key


def without_needless_tombstones(rows: list[Result]) -> list[Result]:
    """Without those of rows that are not there: Kafka Streams writes them where it does not know what was there."""
    there: dict[Any, bool] = {}
    found = []
    for row in rows:
        key, value, _ = row
        if value is not None or there.get(key):
            found.append(row)
        there[key] = value is not None
    return found


UNLIKE = {  # of docs/streams.md: what differs in the middle of a chain
    "left-join",  # Kafka Streams shows records without a partner some records later
    "outer-join",
    "session-closed",  # it shows a session a moment before it is over
}
ANY_ORDER = {"sliding", "foreign-key"}  # windows of one record in another order; results that are overtaken left out


def chain_names(chance: random.Random) -> list[tuple[str, ...]]:
    known = [name for name in chains.OPERATORS if name not in UNLIKE]
    drawn = [tuple(chance.choices(known, k=2 + n % 2)) for n in range(CHAINS)]
    # Punctuation by itself: Kafka Streams' test driver runs all sub-topologies in one task, which has one stream time.
    drawn = [chain for chain in drawn if "sliding" not in chain[:-1] and "punctuate" not in chain]
    return [(name,) for name in known] + drawn


@pytest.mark.timeout(300 + 5 * CHAINS)
def test_chains_of_operators_give_what_kafka_streams_gives(kafka_streams: Any) -> None:
    """One by one, in the same order for every key; tests/unit/pipelines/streams/test_batch_ends.py has the batches."""
    chance = random.Random(CHAINS_SEED)
    names = chain_names(chance)
    together = [chain for chain in names if "punctuate" not in chain]
    for first in range(0, len(together), 100):
        made = chains.Chains(together[first : first + 100], emit=CHAINS_EMIT)
        records = chains.random_records(made.topology, chance, RECORDS)
        compare_chains(made, records, kafka_streams)
    for chain in names:
        if "punctuate" in chain:  # stream time is that of the sub-topology: records of other chains would move it
            made = chains.Chains([chain], emit=CHAINS_EMIT)
            compare_chains(made, chains.random_records(made.topology, chance, RECORDS), kafka_streams)


def compare_chains(made: Any, records: list[Record], kafka_streams: Any) -> None:
    ours = chains.rows_by_batch(made, records, set(range(len(records))), restart=False)
    unlike: list[str] = []
    for number, chain in enumerate(made.chains):
        topics = chains.Chains([chain]).topology.graph.topics()
        asked = [at for at, record in enumerate(records) if record[0] in topics]
        answer = kafka_streams(f"chain:{','.join(chain)}", [records[at] for at in asked])
        once = made.shows_once(number)
        for at, record in enumerate(records):
            theirs = [row[:3] for row in answer if asked[row[3]] == at]
            told = f"{chain}, record {at}, {record}: Kafka Streams {theirs}, ours {ours[at][number]}"
            if not alike(chain, ours[at][number], theirs, once):
                unlike.append(told)
                break
    assert not unlike, "\n".join(unlike)


def alike(chain: tuple[str, ...], ours: list[Any], theirs: list[Any], once: bool) -> bool:
    mine, other = chains.by_key(ours), chains.by_key(theirs)
    if chain[-1] in ANY_ORDER and not once:
        return all(set(rows) <= set(mine[key]) for key, rows in other.items()) and mine.keys() == other.keys()
    if once:
        return mine.keys() == other.keys() and (
            chain[-1] in ANY_ORDER or all(rows[-1] == mine[key][-1] for key, rows in other.items())
        )
    return bool(mine == other)


def test_spark_gives_for_all_of_them_what_runs_in_this_process(spark: Any) -> None:
    """All in one topology with three partitions, in two batches with a restart between them."""
    builds = {name: build for name, build in {**STREAMS, **TABLES}.items() if name not in ALONE}
    chance = random.Random(8)
    records = random_records("all", ["in", "other", "third"], chance, in_order=True)
    records += [(topic, key, value, time + 200) for topic, key, value, time in records]
    records = [("other", key, "2", 0) for key in "123"] + records  # for those who join by value

    def results(session: Any) -> dict[str, Counter[Any]]:
        topology = Topology()
        for name, build in builds.items():
            build(topology).to(f"out-{name}", value=STRING)
        found: dict[str, Counter[Any]] = {name: Counter() for name in builds}
        with TopologyTestDriver(topology, session, partitions=3) as driver:
            for half in (records[:RECORDS], records[RECORDS:]):
                for topic, key, value, time in half:
                    driver.pipe_input(topic, key, value, timestamp_ms=time)
                for name in builds:
                    found[name].update(driver.read_timed_output(f"out-{name}"))
                driver.restart()
        return found

    by_spark, here = results(spark), results(None)
    assert [name for name in builds if not here[name]] == []
    assert by_spark == here
