"""Decides whether a history shows what a cluster must never show.

| anomaly | what it is |
| --- | --- |
| inconsistent offset | one offset had two values: as acknowledged, as read by a consumer, or as it is in the end |
| lost write | acknowledged, or in a committed transaction, and not there |
| lost read | a consumer was given it, and it is not there |
| duplicate | a value is at two offsets, though its writer was idempotent or transactional |
| reordered | one writer's values are in another order than it sent them |
| aborted read | a value of an aborted transaction was given to a consumer, or is there |
| precommitted read | a consumer was given a value before its transaction's commit was asked for |
| torn transaction | of a transaction with an unknown end some values are there and some are not |
| invented | a value that nobody sent |
| poll back | within one assignment a consumer was given an offset it had passed |
| poll skip | within one assignment a consumer was not given a record that is there |
| committed offset back | a group's committed offset became smaller |
| not copied, copied twice | reading, processing and writing in transactions did not happen exactly once |

A duplicate is librdkafka's own, and no anomaly, if its writer has several requests in flight and each copy was written
in another producer epoch: `written_again`.

Not looked for: cycles between transactions (G1c). Allowed: gaps in offsets, values whose outcome is not known that are
there or are not, and duplicates and another order where the topic promises nothing else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.support.chaos.history import COPIED_BY, UNKNOWN_OFFSET, History, Outcome, Partition, Promise, Seen, Send


class Anomaly(NamedTuple):
    kind: str
    what: str


def judge(history: History) -> list[Anomaly]:
    checks = (
        _inconsistent_offsets,
        _lost_writes,
        _lost_reads,
        _duplicates,
        _reordered,
        _aborted_reads,
        _precommitted_reads,
        _torn_transactions,
        _invented,
        _polls,
        _committed_offsets,
        _copies,
    )
    return [anomaly for check in checks for anomaly in check(history)]


def _shown(partition: Partition, offset: int) -> str:
    return f"{partition[0]}-{partition[1]} at {offset}"


def _inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    values: dict[tuple[Partition, int], dict[bytes, str]] = defaultdict(dict)
    for send in history.sends:
        if send.offset != UNKNOWN_OFFSET:
            values[send.partition, send.offset][send.value] = "acknowledged"
    for seen in history.seen:
        values[seen.partition, seen.offset].setdefault(seen.value, f"read by {seen.assignment}")
    for partition, records in history.raw.items():
        for offset, value in records.items():
            values[partition, offset].setdefault(value, "there in the end")
    for (partition, offset), found in values.items():
        if len(found) > 1:
            told = ", ".join(f"{value!r} ({how})" for value, how in found.items())
            yield Anomaly("inconsistent offset", f"{_shown(partition, offset)}: {told}")


def _is_promised(history: History, send: Send) -> bool:
    """Whether it must be there: acknowledged, and not in a transaction that may have been aborted."""
    if send.transaction is not None:
        return history.transactions[send.transaction].outcome is Outcome.COMMITTED
    return send.acknowledged_at is not None


def _lost_writes(history: History) -> Iterator[Anomaly]:
    there = _values(history)
    for send in history.sends:
        if _is_promised(history, send) and send.value not in there[send.partition]:
            yield Anomaly("lost write", f"{send.value!r} of {send.writer}, {_shown(send.partition, send.offset)}")


def _values(history: History) -> dict[Partition, Counter[bytes]]:
    found: dict[Partition, Counter[bytes]] = defaultdict(Counter)
    for partition, records in history.log.items():
        found[partition].update(records.values())
    return found


def _lost_reads(history: History) -> Iterator[Anomaly]:
    there = _values(history)
    for seen in history.seen:
        if seen.value not in there[seen.partition]:
            yield Anomaly(
                "lost read", f"{seen.value!r}, {_shown(seen.partition, seen.offset)}, given to {seen.assignment}"
            )


def _promise(history: History, topic: str) -> Promise:
    return history.promises.get(topic, Promise(once=False, in_order=False))


def written_again(history: History) -> set[bytes]:
    """Values that librdkafka has sent again in a new producer epoch, in which no broker can know them.

    It does so when a partition moves while it has several requests in flight: the second reaches the new leader before
    the first, which the former leader had appended, is refused as out of order, and both are sent again. Three nodes of
    Apache Kafka whose leaders are moved all the time show it three times in six minutes. Whose requests come one by
    one cannot be told that anything is out of order, so for them there is no excuse.
    """
    epochs: dict[tuple[Partition, bytes], list[tuple[int, int] | None]] = defaultdict(list)
    for partition, records in history.raw.items():
        for offset, value in records.items():
            if COPIED_BY not in value and value.partition(b":")[0].decode() in history.several_in_flight:
                epochs[partition, value].append(history.written_by.get((partition, offset)))
    return {value for (_, value), found in epochs.items() if None not in found and 1 < len(found) == len(set(found))}


def _duplicates(history: History) -> Iterator[Anomaly]:
    again = written_again(history)
    places: dict[tuple[str, bytes], list[str]] = defaultdict(list)
    for partition, records in history.log.items():
        if _promise(history, partition[0]).once:
            for offset, value in records.items():
                places[partition[0], value].append(_shown(partition, offset))
    for (_, value), found in places.items():
        if len(found) > 1 and value.partition(COPIED_BY)[0] not in again:
            yield Anomaly("duplicate", f"{value!r}: {', '.join(found)}")


def _reordered(history: History) -> Iterator[Anomaly]:
    offsets = {
        (partition, value): offset for partition, records in history.log.items() for offset, value in records.items()
    }
    last: dict[tuple[str, Partition], tuple[int, bytes]] = {}
    again = written_again(history)
    for send in history.sends:
        found = offsets.get((send.partition, send.value))
        if (
            found is None
            or send.value.partition(COPIED_BY)[0] in again
            or not _promise(history, send.partition[0]).in_order
        ):
            continue
        before = last.get((send.writer, send.partition))
        if before is not None and before[0] > found:
            yield Anomaly(
                "reordered",
                f"{send.writer} sent {before[1]!r} before {send.value!r}: {before[0]}, {_shown(send.partition, found)}",
            )
        last[send.writer, send.partition] = (found, send.value)


def _aborted_reads(history: History) -> Iterator[Anomaly]:
    aborted = {
        send.value
        for send in history.sends
        if send.transaction is not None and history.transactions[send.transaction].outcome is Outcome.ABORTED
    }
    for seen in history.seen:
        if seen.value in aborted:
            yield Anomaly(
                "aborted read", f"{seen.value!r}, {_shown(seen.partition, seen.offset)}, given to {seen.assignment}"
            )
    for partition, records in history.log.items():
        for offset, value in records.items():
            if value in aborted:
                yield Anomaly("aborted read", f"{value!r} is there, {_shown(partition, offset)}")


def _precommitted_reads(history: History) -> Iterator[Anomaly]:
    asked = {
        send.value: history.transactions[send.transaction].commit_asked_at
        for send in history.sends
        if send.transaction is not None
    }
    for seen in history.seen:
        if seen.value in asked:
            at = asked[seen.value]
            if at is None or seen.at < at:
                yield Anomaly("precommitted read", f"{seen.value!r}, {_shown(seen.partition, seen.offset)}")


def _torn_transactions(history: History) -> Iterator[Anomaly]:
    there = _values(history)
    parts: dict[str, list[Send]] = defaultdict(list)
    for send in history.sends:
        if send.transaction is not None and history.transactions[send.transaction].outcome is Outcome.UNKNOWN:
            parts[send.transaction].append(send)
    for name, sends in parts.items():
        missing = [send for send in sends if send.value not in there[send.partition]]
        if 0 < len(missing) < len(sends):
            told = ", ".join(f"{send.value!r}" for send in missing)
            yield Anomaly("torn transaction", f"{name}: {told} of {len(sends)} missing")


def _invented(history: History) -> Iterator[Anomaly]:
    sent = {(send.partition, send.value) for send in history.sends}
    for partition, records in history.raw.items():
        for offset, value in records.items():
            if (partition, value) not in sent:
                yield Anomaly("invented", f"{value!r}, {_shown(partition, offset)}")


def _polls(history: History) -> Iterator[Anomaly]:
    last: dict[tuple[str, Partition], Seen] = {}
    order = {partition: sorted(records) for partition, records in history.log.items()}
    places = {partition: {offset: at for at, offset in enumerate(offsets)} for partition, offsets in order.items()}
    for seen in history.seen:
        before = last.get((seen.assignment, seen.partition))
        last[seen.assignment, seen.partition] = seen
        if before is None:
            continue
        if seen.offset <= before.offset:
            yield Anomaly(
                "poll back", f"{seen.assignment}: {before.offset}, then {_shown(seen.partition, seen.offset)}"
            )
            continue
        place = places.get(seen.partition, {}).get(before.offset)
        following = [] if place is None else order[seen.partition][place + 1 : place + 2]
        if following and following[0] < seen.offset:
            then = _shown(seen.partition, seen.offset)
            yield Anomaly("poll skip", f"{seen.assignment}: {before.offset}, then {then}, without {following[0]}")


def _committed_offsets(history: History) -> Iterator[Anomaly]:
    last: dict[tuple[str, Partition], int] = {}
    for told in history.committed:
        before = last.get((told.group, told.partition), -1)
        if told.offset < before:
            yield Anomaly(
                "committed offset back", f"{told.group}: {before}, then {_shown(told.partition, told.offset)}"
            )
        last[told.group, told.partition] = told.offset


def _copies(history: History) -> Iterator[Anomaly]:
    for source, target in history.copies:
        wanted = Counter(
            value for partition, records in history.log.items() if partition[0] == source for value in records.values()
        )
        found = Counter(
            value.rpartition(COPIED_BY)[0]
            for partition, records in history.log.items()
            if partition[0] == target
            for value in records.values()
        )
        for value in wanted.keys() | found.keys():
            if found[value] < wanted[value]:
                yield Anomaly("not copied", f"{value!r} from {source} to {target}")
            elif found[value] > wanted[value]:
                yield Anomaly("copied twice", f"{value!r} from {source} to {target}")
