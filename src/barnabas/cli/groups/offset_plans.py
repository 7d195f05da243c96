"""Where a group's offsets are to go: Kafka's scenarios (`--to-earliest`, `--shift-by`, ...) for partitions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, option
from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

EARLIEST = -2
LATEST = -1

SCENARIOS = (
    option("--to-offset", takes="offset", kind=int, help="Reset offsets to a specific offset."),
    option("--to-datetime", takes="date", help="Reset offsets to a date: YYYY-MM-DDThh:mm:ss.sss, UTC without a zone."),
    option("--by-duration", takes="duration", help="Reset offsets to a duration before now: PnDTnHnMnS."),
    option("--to-earliest", help="Reset offsets to the start of the log."),
    option("--to-latest", help="Reset offsets to the end of the log."),
    option("--to-current", help="Reset offsets to the committed ones."),
    option("--shift-by", takes="count", kind=int, help="Shift the committed offsets; forwards or, if negative, back."),
    option("--from-file", takes="file", help="Reset offsets to those of a CSV file.", completes="file"),
)
SCENARIO_NAMES = tuple(scenario.name for scenario in SCENARIOS)

Offsets = dict[TopicPartition, int]


def refuse_several(parsed: Parsed, names: Iterable[str] = SCENARIO_NAMES) -> None:
    names = list(names)
    for name in names:
        parsed.refuse(name, *(other for other in names if other != name))


def planned_offsets(
    cluster: Cluster,
    parsed: Parsed,
    partitions: list[TopicPartition],
    committed: Callable[[], Mapping[TopicPartition, int]],
) -> Offsets:
    """`--from-file` is not among these: it names its partitions itself."""
    if "to-offset" in parsed:
        offset = parsed.number("to-offset") or 0
        return in_range(cluster, dict.fromkeys(partitions, offset))
    if "to-earliest" in parsed:
        return offsets_at(cluster, partitions, EARLIEST)
    if "to-latest" in parsed:
        return offsets_at(cluster, partitions, LATEST)
    if "shift-by" in parsed:
        return in_range(cluster, _shifted(partitions, parsed.number("shift-by") or 0, committed()))
    if "to-datetime" in parsed:
        from barnabas.cli.arguments.points_in_time import timestamp_ms

        return offsets_by_time(cluster, partitions, timestamp_ms(parsed.text("to-datetime") or ""))
    if "by-duration" in parsed:
        from barnabas.cli.arguments.points_in_time import iso_duration_ms

        past_ms = iso_duration_ms(parsed.text("by-duration") or "")
        return offsets_by_time(cluster, partitions, round(time.time() * 1000) - past_ms)
    return _current(cluster, partitions, committed())


def offsets_at(cluster: Cluster, partitions: Iterable[TopicPartition], at: int) -> Offsets:
    wanted = dict.fromkeys(partitions, at)
    found = cluster.list_offsets(wanted) if wanted else {}
    return {partition: found[partition].offset for partition in wanted}


def offsets_by_time(cluster: Cluster, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
    """The end where no record is late enough, which is told."""
    wanted = dict.fromkeys(partitions, timestamp_ms)
    found = {partition: at.offset for partition, at in cluster.list_offsets(wanted).items()} if wanted else {}
    late = [partition for partition in wanted if found[partition] < 0]
    for topic, index in late:
        print(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")
    found |= offsets_at(cluster, late, LATEST)
    return {partition: found[partition] for partition in wanted}


def in_range(cluster: Cluster, asked: Offsets) -> Offsets:
    """No offset before the start or behind the end of its log; whoever asked for one is told."""
    starts, ends = offsets_at(cluster, asked, EARLIEST), offsets_at(cluster, asked, LATEST)
    chosen: Offsets = {}
    for (topic, index), offset in asked.items():
        start, end = starts[topic, index], ends[topic, index]
        chosen[topic, index] = min(max(offset, start), end)
        if offset > end:
            _warn(f"New offset ({offset}) is higher than latest offset for topic partition {topic}-{index}", end)
        elif offset < start:
            _warn(f"New offset ({offset}) is lower than earliest offset for topic partition {topic}-{index}", start)
    return chosen


def _warn(what: str, value: int) -> None:
    """In the form of a line of Kafka's log, which is where its tool says it."""
    now = time.time()
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now)) + f",{round(now * 1000) % 1000:03}"
    print(f"[{at}] WARN {what}. Value will be set to {value}", file=sys.stderr)


def _shifted(partitions: Iterable[TopicPartition], by: int, committed: Mapping[TopicPartition, int]) -> Offsets:
    for topic, index in partitions:
        if (topic, index) not in committed:
            raise UsageError(
                f"Cannot shift offset for partition {topic}-{index} since there is no current committed offset"
            )
    return {partition: committed[partition] + by for partition in partitions}


def _current(
    cluster: Cluster, partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int]
) -> Offsets:
    partitions = list(partitions)
    ends = offsets_at(cluster, [each for each in partitions if each not in committed], LATEST)
    return {partition: committed.get(partition, ends.get(partition, 0)) for partition in partitions}


def topic_partitions(cluster: Cluster, topics: Iterable[str]) -> list[TopicPartition]:
    """`t` is every partition of t, `t:0,2` two of them."""
    asked = [topic.partition(":") for topic in topics]
    known = cluster.metadata({name for name, _, _ in asked}).topics
    found: list[TopicPartition] = []
    for name, _, indexes in asked:
        topic = known.get(name)
        if topic is None or topic.error:
            from barnabas.cli.connect import unknown_topic

            raise unknown_topic(name, cluster.metadata().topics)
        chosen = [_index(index, f"{name}:{indexes}") for index in indexes.split(",")] if indexes else topic.partitions
        for index in chosen:
            if index not in topic.partitions:
                raise Refused(3, f"Topic {name} has no partition {index}, it has {len(topic.partitions)} of them")
            found.append((name, index))
    return list(dict.fromkeys(found))


def _index(text: str, argument: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"Invalid partition '{text}' specified in topic arg '{argument}''")
    return int(text)


def plan_of_file(path: str, groups: list[str]) -> dict[str, Offsets]:
    """Lines `topic,partition,offset`, or with the group before them if several groups are reset."""
    import csv

    plan: dict[str, Offsets] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row:
                continue
            if len(groups) == 1 and len(row) == 3:
                row = [groups[0], *row]
            if len(row) != 4 or not row[2].strip().isdecimal() or not row[3].strip().isdecimal():
                form = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
                raise UsageError(f"Line {number} of {path} is not of the form {form}.")
            group, topic, index, offset = (cell.strip() for cell in row)
            plan.setdefault(group, {})[topic, int(index)] = int(offset)
    return plan
