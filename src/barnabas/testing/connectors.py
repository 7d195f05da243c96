"""Checks the promises of a connector that somebody wrote: replay, exactly once, bad records.

    def test_my_source_can_be_replayed():
        check_source(Weather, {"city": "Prague", "topic": "t"}, records=20)

    def test_my_sink_writes_once(tmp_path):
        check_sink(MySink, {"file": str(tmp_path / "out")}, ["a", "b"], read=lambda: read_back(tmp_path), once=True)

They need neither a cluster nor Spark: they do with objects of the class what turns do. `AssertionError` tells what is
not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barnabas.pipelines.connect.connector import (
    BadRecords,
    SinkConnector,
    SourceConnector,
    TopicPartition,
    offset_key,
)
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.errors import ConnectError

POLLS_MAX = 1_000
TOPIC = "checked"


def check_source(
    connector: type[SourceConnector], settings: Mapping[str, str], *, records: int, tasks_max: int = 1
) -> list[Record]:
    """A source that has `records` records now gives them, and from every offset exactly those that follow it."""
    found: list[Record] = []
    for task, own in enumerate(_tasks(connector, settings, tasks_max)):
        given = _polled(connector, own, task, {})
        for each in given:
            _check_offset(each)
        for at in range(len(given)):
            after = _offsets_after(given[: at + 1])
            rest = _polled(connector, own, task, after)
            assert _told(rest) == _told(given[at + 1 :]), (
                f"after record {at} with the offset {given[at].source_offset}, other records come than before:\n"
                f"  expected {_told(given[at + 1 :])[:3]}\n  found    {_told(rest)[:3]}"
            )
        found += given
    assert len(found) == records, f"the source gives {len(found)} records, not {records}"
    return found


def _tasks(connector: type[Any], settings: Mapping[str, str], tasks_max: int) -> list[dict[str, str]]:
    made: list[dict[str, str]] = connector.task_settings(dict(settings), tasks_max)
    assert 0 < len(made) <= tasks_max, f"task_settings gives {len(made)} tasks for tasks.max={tasks_max}"
    text = all(isinstance(value, str) for own in made for value in own.values())
    assert text, "task_settings must give texts: they are written to the configuration topic"
    return [{**settings, **own} for own in made]


def _polled(
    connector: type[SourceConnector], settings: Mapping[str, str], task: int, offsets: Mapping[str, dict[str, Any]]
) -> list[Record]:
    """All that an object gives until it has no more, as one turn."""
    source = connector(settings, name=TOPIC, task=task)
    found: list[Record] = []
    try:
        source.start(json.loads(json.dumps(offsets)))
        for _ in range(POLLS_MAX):
            records = source.poll()
            if not records:
                source.committed(_offsets_after(found))
                return found
            found += records
    finally:
        source.close()
    raise AssertionError(f"the source still gives records after {POLLS_MAX} polls: give it an end for the check")


def _check_offset(record: Record) -> None:
    assert record.source_partition is not None, "a record has no source_partition: it comes again after every restart"
    assert record.source_offset is not None, "a record has no source_offset: it comes again after every restart"
    for what in (record.source_partition, record.source_offset):
        assert json.loads(json.dumps(what)) == what, f"{what} changes on its way through JSON"


def _offsets_after(records: Sequence[Record]) -> dict[str, dict[str, Any]]:
    return {offset_key(each.source_partition or {}): each.source_offset or {} for each in records}


def _told(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    return [(each.topic, each.key, each.value, each.source_offset) for each in records]


def check_sink(
    connector: type[SinkConnector],
    settings: Mapping[str, str],
    values: Sequence[Any],
    *,
    read: Callable[[], Sequence[Any]],
    once: bool,
    bad: Any = None,
) -> None:
    """A sink has all values after a turn that crashed before its commit and was done again; once if it promises so.

    `read` gives what is in the target, in the form of `values`. `bad` is a value that the sink cannot take: it must be
    told by BadRecords or another ConnectError, and must not be written.
    """
    records = [_record(offset, value) for offset, value in enumerate(values)]
    group: dict[TopicPartition, tuple[int, str]] = {}
    _turn(connector, settings, records, group)
    first = list(read())
    assert first == list(values), f"after a turn the target has {first}, not {list(values)}"
    _turn(connector, settings, records, group)  # the commit did not happen, so the group knows nothing
    again = list(read())
    if once:
        assert again == first, f"a turn that is done again leaves {again}: the sink is not exactly once"
    missing = [value for value in values if value not in again]
    assert not missing, f"a turn that is done again loses {missing}"
    if bad is not None:
        _check_bad(connector, settings, _record(len(values), bad), read)


def _check_bad(
    connector: type[SinkConnector], settings: Mapping[str, str], record: Record, read: Callable[[], Sequence[Any]]
) -> None:
    try:
        _turn(connector, settings, [record], {(TOPIC, 0): (record.offset or 0, "later")})
    except (BadRecords, ConnectError):
        assert record.value not in read(), "the bad record is in the target, though the sink refused it"
        return
    except Exception as error:
        raise AssertionError(f"a bad record gives {type(error).__name__}: raise BadRecords or a DataError") from error
    raise AssertionError("the sink takes the bad record without a word")


def _record(offset: int, value: Any) -> Record:
    return Record(TOPIC, value, partition=0, offset=offset, timestamp=0, original=(TOPIC, 0, offset))


def _turn(
    connector: type[SinkConnector],
    settings: Mapping[str, str],
    records: Sequence[Record],
    group: Mapping[TopicPartition, tuple[int, str]],
) -> None:
    sink = connector(settings, name=TOPIC)
    sink.partitions = [(TOPIC, 0)]
    try:
        sink.open()
        start = dict(sink.positions(group)).get((TOPIC, 0), 0)
        left = [each for each in records if (each.offset or 0) >= start]
        if left:
            sink.put(left)
        end = max([start, *((each.offset or 0) + 1 for each in records)])
        sink.announce({(TOPIC, 0): end})
        sink.flush({(TOPIC, 0): end})
    finally:
        sink.close()
