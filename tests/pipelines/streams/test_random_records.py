"""Windows and joins over random records through Spark: many partitions, each with records of its own, in two batches
with a restart between them, beside a plain reference in Python.
"""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.streams import (
    JSON,
    LONG,
    Topology,
    TopologyTestDriver,
    hopping,
    session_window,
    sliding,
    tumbling,
    within,
)

pytestmark = pytest.mark.timeout(600)
PARTITIONS, RECORDS, GRACE, SEED = 60, 16, 5, 20
SIZE, ADVANCE, GAP, DIFFERENCE, BEFORE, AFTER, LAST = 10, 4, 6, 8, 3, 9, 1000


def plain_reference() -> Any:
    path = Path(__file__).parents[2] / "unit" / "pipelines" / "streams" / "plain_reference.py"
    spec = importlib.util.spec_from_file_location("plain_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def topology() -> Topology:
    made = Topology()
    records, others = made.stream("in"), made.stream("other")
    grouped = records.group_by_key()
    grouped.windowed_by(tumbling(SIZE, grace=GRACE)).count().to("tumbling", value=LONG)
    hops = grouped.windowed_by(hopping(SIZE, ADVANCE, grace=GRACE))
    hops.reduce(lambda old, new: old + new).to("hopping", value=JSON)
    hops.count().suppress().to("closed", value=LONG)
    sessions = grouped.windowed_by(session_window(GAP, grace=GRACE))
    sessions.count().to("sessions", value=LONG)
    sessions.reduce(lambda old, new: old + new).suppress().to("closed-sessions", value=JSON)
    grouped.windowed_by(sliding(DIFFERENCE, grace=1000)).reduce(lambda old, new: old + new).to("sliding", value=JSON)
    near = within(before=BEFORE, after=AFTER, grace=GRACE)
    ordered = made.stream("ordered")
    ordered.outer_join(others, lambda a, b: [a, b], near).to("pairs", value=JSON)
    ordered.left_join(made.table("table"), lambda a, b: [a, b]).to("joined", value=JSON)
    rekeyed = records.group_by(lambda key, value: f"{key.partition(':')[0]}:{value % 3}")
    rekeyed.aggregate(lambda: 0, lambda key, value, total: total + value).to("sums", value=JSON)
    return made


def test_random_records_give_what_the_reference_gives(spark: Any) -> None:
    plain, chance = plain_reference(), random.Random(SEED)
    made = topology()
    topics = made.graph.topics()
    given: dict[tuple[str, int], list[Any]] = {}
    for partition in range(PARTITIONS):
        keys = [f"{partition}:{key}" for key in "ab"]
        for topic in topics:
            times = [chance.randrange(60) for _ in range(RECORDS)]
            if topic != "in":
                times.sort()
            offset = 1000 * topics.index(topic)
            given[topic, partition] = [
                (chance.choice(keys), time, offset + number) for number, time in enumerate(times)
            ]
        # Records without a partner are shown when a later record makes the join look for them: the last one does.
        given["other", partition].append((f"{partition}:a", LAST, 1000 * topics.index("other") + RECORDS))
    found: dict[str, list[Any]] = {sink.topic: [] for _, sink in made.graph.sinks()}
    middles = [chance.randrange(60) for _ in range(PARTITIONS)]
    with TopologyTestDriver(made, spark, partitions=PARTITIONS) as driver:
        for half in (0, 1):
            for (topic, partition), records in given.items():
                half_way = RECORDS // 2
                for number, (key, time, value) in enumerate(records):
                    second = number >= half_way if topic == "in" else time > middles[partition]
                    if second is bool(half):
                        driver.pipe_input(topic, key, value, timestamp_ms=time, partition=partition)
            for topic, got in found.items():
                got += driver.read_output(topic)
            driver.restart()
    tables = {
        topic: {key: value for key, value in dict(got).items() if value is not None} for topic, got in found.items()
    }
    compare(plain, given, found, tables)


def compare(plain: Any, given: Any, found: dict[str, list[Any]], tables: dict[str, dict[Any, Any]]) -> None:
    expected: dict[str, dict[Any, Any]] = {topic: {} for topic in tables}
    once: dict[str, list[Any]] = {"closed": [], "pairs": [], "joined": []}
    for partition in range(PARTITIONS):
        records, others = given["in", partition], given["other", partition]
        ordered, rows = given["ordered", partition], given["table", partition]
        expected["tumbling"] |= plain.time_windows(records, SIZE, SIZE, GRACE)[0]
        _, sums, closed = plain.time_windows(records, SIZE, ADVANCE, GRACE)
        expected["hopping"] |= sums
        once["closed"] += closed.items()
        counts, closed = plain.sessions(records, GAP, GRACE)
        expected["sessions"] |= counts
        expected["closed-sessions"] |= closed
        expected["sliding"] |= plain.sliding_sums(records, DIFFERENCE)
        pairs, lonely = plain.stream_pairs(ordered, others, BEFORE, AFTER, GRACE)
        once["pairs"] += pairs + lonely
        for key, time, value in ordered:
            there = [row for name, at, row in rows if name == key and at <= time]
            once["joined"].append((key, [value, there[-1] if there else None]))
        for _, _, value in records:
            place = f"{partition}:{value % 3}"
            expected["sums"][place] = expected["sums"].get(place, 0) + value
    for topic in ("tumbling", "hopping", "sessions", "closed-sessions", "sliding", "sums"):
        assert tables[topic] == expected[topic], topic
    for topic, results in once.items():
        assert sorted(found[topic], key=str) == sorted(results, key=str), topic
