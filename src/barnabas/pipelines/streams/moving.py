"""Moves the state of a topology to another number of partitions, while it does not run: `barnabas pipeline rescale`.

Every entry goes to the partition of its key: murmur2 of the key's bytes, as producers place records. That the same
computation finds each entry where it lies now is checked first; where it does not (another partitioner, keys written in
another way), nothing is moved. What is true of a partition as a whole, as its stream time, becomes true of those that
get its keys (`state.shapes.together`).

The new state is written beside the old one. It counts from the moment `topology.json` names it, which is one write of
one file, and the old one is removed after that. What a move leaves that was broken off is removed by the next.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from barnabas.pipelines.spark.sink.murmur2 import partitions_of
from barnabas.pipelines.streams.checkpoint import (
    NOTES,
    STATE,
    TOPOLOGY,
    batches_in,
    committed_batch,
    is_half_done,
    read_note,
    state_name,
    write_note,
)
from barnabas.pipelines.streams.errors import CheckpointError, StreamsError
from barnabas.pipelines.streams.objects import Key
from barnabas.pipelines.streams.placement import Placement, StorePlacement, read_placement
from barnabas.pipelines.streams.state.shapes import CLOCK, key_in, renumbered, together
from barnabas.pipelines.streams.state.storage import Directory, settle
from barnabas.pipelines.streams.state.versions import CACHE_BYTES, PartitionState

ENTRIES_AT_ONCE = 10_000
MOVED_BYTES_MIN = 1 << 20  # of memory, for each partition that is filled


@dataclass
class Moved:
    """What was done: entries, and of them those that have another partition now."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    entries: int = 0
    elsewhere: int = 0


def move_state(
    checkpoint: Directory,
    partitions: int | Mapping[str, int],
    *,
    version: int | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Moved:
    """`partitions` is of all topics that the topology reads, or by topic; `version` is that of the state, where Spark
    does not tell which batch is done."""
    note = read_note(checkpoint, TOPOLOGY)
    if note is None:
        raise StreamsError(f"{checkpoint.address} is no checkpoint of a topology")
    before: dict[str, int] = note["partitions"]
    if not before:
        raise StreamsError(f"the topology of {checkpoint.address} has no state: topics may grow as they like")
    after = wanted(before, partitions)
    if after == before:
        topic, count = min(after.items())
        raise StreamsError(f"topic {topic} has {count} partitions already, and so has the state")
    check_finished(checkpoint)
    placement = read_placement(checkpoint)
    check_movable(placement)
    check_still_together(placement, before, after)
    moved = Moved(before, after)
    old_name = state_name(checkpoint)
    new_name = next_name(old_name)
    remove_others(checkpoint, old_name)
    old, new = checkpoint.under(NOTES, old_name), checkpoint.under(NOTES, new_name)
    if version is None and (last := committed_batch(checkpoint)) is not None:
        version = last + 1
    if version is not None:  # else no batch is done: global tables are read anew
        for directory in dict.fromkeys(one.directory for one in placement.stores):
            _Move(placement, directory, old, new, version, moved, cache_bytes).run()
    settle()
    write_note(checkpoint, TOPOLOGY, note | {"partitions": after, STATE: new_name})
    settle()
    remove_others(checkpoint, new_name)
    return moved


def wanted(before: Mapping[str, int], partitions: int | Mapping[str, int]) -> dict[str, int]:
    if isinstance(partitions, int):
        found = dict.fromkeys(before, partitions)
    else:
        if strange := sorted(set(partitions) - set(before)):
            raise StreamsError(f"the topology does not read topic {strange[0]}: it reads {', '.join(sorted(before))}")
        found = {**before, **partitions}
    if (least := min(found.values())) < 1:
        raise StreamsError(f"a topic has at least one partition, not {least}")
    return found


def check_finished(checkpoint: Directory) -> None:
    if is_half_done(checkpoint):
        batch = max(batches_in(checkpoint, "offsets"))
        raise CheckpointError(
            f"batch {batch} of {checkpoint.address} was begun and not finished, and can only be finished with as many"
            " partitions as it was begun with: start the topology before the topic grows, or where it has grown, with"
            " another checkpoint"
        )


def check_movable(placement: Placement) -> None:
    for one in placement.stores:
        if one.shape is None:
            raise StreamsError(
                f"store {one.store} of {one.operator} can't be moved to other partitions: only its processor knows what"
                " its keys are; start the topology with another checkpoint"
            )


def check_still_together(placement: Placement, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    for one in placement.stores:
        counts = {after[topic] for topic in one.topics}
        if len(counts) > 1:
            told = " and ".join(f"{topic} {after[topic]}" for topic in one.topics)
            raise StreamsError(f"{one.operator} needs topics of the same number of partitions, not {told}")


def next_name(name: str) -> str:
    number = name.removeprefix(STATE).removeprefix("-") or "1"
    return f"{STATE}-{int(number) + 1}"


def remove_others(checkpoint: Directory, name: str) -> None:
    notes = checkpoint.under(NOTES)
    for found in notes.names():
        if found != name and (found == STATE or found.removeprefix(f"{STATE}-").isdigit()):
            notes.under(found).remove_all()


class _Move:
    """One directory of the state: a stage, or a global table."""

    def __init__(
        self,
        placement: Placement,
        name: str,
        old: Directory,
        new: Directory,
        version: int,
        moved: Moved,
        cache_bytes: int,
    ) -> None:
        self.stores, self.version, self.moved = placement.of(name), version, moved
        self.old, self.new = old.under(name), new.under(name)
        self.widest = placement.widest(moved.before), placement.widest(moved.after)
        _, counts = zip(*(self.counts(one) for one in self.stores), strict=True)
        self.cache_bytes = max(cache_bytes // (max(counts) + 1), MOVED_BYTES_MIN)
        self.filled: dict[int, PartitionState] = {}
        self.clocks: dict[str, dict[int, dict[Any, Any]]] = {}  # by store and old partition

    def counts(self, store: StorePlacement) -> tuple[int, int]:
        return (
            store.partitions(self.moved.before, self.widest[0]),
            store.partitions(self.moved.after, self.widest[1]),
        )

    def run(self) -> None:
        try:
            for partition in sorted(int(one) for one in self.old.names() if one.isdigit()):
                self.move(partition)
            self.set_clocks()
            for state in self.filled.values():
                state.make_room()
                state.write_snapshot(self.version)
        finally:
            for state in self.filled.values():
                state.close()

    def move(self, partition: int) -> None:
        state = PartitionState(self.old.under(str(partition)), self.cache_bytes)
        state.load(self.version)
        try:
            if strange := sorted(set(state.stores) - {one.store for one in self.stores}):
                raise StreamsError(f"store {strange[0]} in {state.directory.address} belongs to no operator")
            for store in self.stores:
                data = state.store(store.store).data
                if store.shape == CLOCK:
                    self.clocks.setdefault(store.store, {})[partition] = dict(data.items())
                    continue
                entries = iter(data.items())
                while some := list(islice(entries, ENTRIES_AT_ONCE)):
                    self.move_entries(store, partition, some)
                    for one in self.filled.values():
                        one.make_room()
        finally:
            state.close()

    def move_entries(self, store: StorePlacement, partition: int, entries: list[tuple[Any, Any]]) -> None:
        before, after = self.counts(store)
        assert store.shape is not None
        keys = [unwrapped(key_in(store.shape, *entry), store.depth) for entry in entries]
        written = pa.array(map(store.serde.to_bytes, keys), pa.binary())
        for at, found in enumerate(partitions_of(written, before).tolist()):
            if found != partition or keys[at] is None:
                raise CheckpointError(
                    f"key {keys[at]!r} of store {store.store} lies in partition {partition}, where murmur2 of its bytes"
                    f" puts it into {found} of {before}: records were not placed by their keys as {store.serde.name}"
                    " writes them, so where they go now is not known; nothing was moved"
                )
        for (key, value), target in zip(entries, partitions_of(written, after).tolist(), strict=True):
            key, value = renumbered(store.shape, key, value, partition, before)
            self.target(target).store(store.store).data[key] = value
            self.moved.elsewhere += target != partition
        self.moved.entries += len(entries)

    def set_clocks(self) -> None:
        """Of all partitions that keys may have come from, whether there are any now or not."""
        for store in self.stores:
            if store.shape != CLOCK:
                continue
            before, after = self.counts(store)
            step = math.gcd(before, after)
            for target in range(after):
                theirs = [
                    clock for one, clock in self.clocks.get(store.store, {}).items() if one % step == target % step
                ]
                found = together(theirs, before)
                if found:
                    self.target(target).store(store.store).data.update(found)

    def target(self, partition: int) -> PartitionState:
        found = self.filled.get(partition)
        if found is None:
            found = PartitionState(self.new.under(str(partition)), self.cache_bytes)
            self.filled[partition] = found
        return found


def unwrapped(key: Key, depth: int) -> Any:
    for _ in range(depth):
        key = key.key
    return key


def offsets_done(checkpoint: Directory) -> dict[str, Any]:
    """Where the next batch begins, as our source has told Spark: by topic and partition."""
    last = committed_batch(checkpoint)
    if last is None:
        return {}
    lines = checkpoint.under("offsets").read(str(last)).decode().splitlines()
    found: dict[str, Any] = json.loads(lines[2])
    return {topic: offsets for topic, offsets in found.items() if not topic.startswith("$")}


def keyed_topics(checkpoint: Directory) -> Iterator[str]:
    """Topics whose records come to state without a repartition: there it matters where they lie."""
    return iter(sorted({topic for one in read_placement(checkpoint).stores for topic in one.topics}))
