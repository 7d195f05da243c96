"""Loading: what lies in the log, replayed into a shard.

Of several values of one key only the last is replayed, as far as memory allows: it is all that compaction would have
left. Records of a transaction are replayed one by one until its marker decides about them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from barnabas.core.coordinator.decision import Marker, Producer
from barnabas.core.coordinator.records import decode
from barnabas.core.coordinator.runtime import ShardRuntime
from barnabas.wire.batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Record,
    decode_records,
    iterate_batches,
    only_record,
)

# The records of the batch at a position; of each, `key` and `value` are looked at.
Decoder = Callable[[bytes, int], Iterable[Any]]

_IN_TRANSACTION = CONTROL_FLAG | TRANSACTIONAL_FLAG
_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
# How many keys are remembered in the hope of a later value, and how many are replayed in one go.
LATEST_MAX = 200_000
TURN_RECORDS = 1_000
_COMMIT = 1
_ABORT = 0


def marker_record(marker: Marker) -> tuple[bytes, bytes]:
    return _CONTROL_KEY.pack(0, _COMMIT if marker.committed else _ABORT), _MARKER_VALUE.pack(
        0, marker.coordinator_epoch
    )


class Loader:
    """Feeds a shard with pieces of its log, in order. A turn of each iterator is a few milliseconds of work."""

    def __init__(self, runtime: ShardRuntime[Any], first_offset: int, decode_batch: Decoder = decode_records) -> None:
        self._runtime = runtime
        self._decode_batch = decode_batch
        self._latest: dict[bytes, bytes | None] = {}
        self.next_offset = first_offset

    def feed(self, piece: bytes, high_watermark: int) -> Iterator[None]:
        """Whole batches, the first of which may begin before the next offset."""
        replayed = 0
        for position, header in iterate_batches(piece):
            last_offset = header.base_offset + header.last_offset_delta
            if last_offset < self.next_offset:
                continue
            is_committed = last_offset < high_watermark
            # What must not change places with what comes before or behind.
            stands_alone = header.attributes & _IN_TRANSACTION or not is_committed
            if stands_alone or len(self._latest) >= LATEST_MAX:
                yield from self.finish()
            if not is_committed:
                self._runtime.loaded_uncommitted(last_offset + 1)
            self._replay(piece, position, header)
            self.next_offset = last_offset + 1
            if stands_alone:
                yield from self.finish()
            replayed += header.records_count
            if replayed >= TURN_RECORDS:
                replayed = 0
                yield

    def finish(self) -> Iterator[None]:
        """Replays what was kept back for a later value."""
        shard = self._runtime.shard
        latest, self._latest = self._latest, {}
        left = iter(latest.items())
        while entries := list(islice(left, TURN_RECORDS)):
            at = 0
            while (at := shard.load(entries, at)) < len(entries):
                decoded = decode(shard.kinds, *entries[at])
                if decoded is not None:
                    shard.replay(decoded, None)
                at += 1
            yield

    def _replay(self, piece: bytes, position: int, header: BatchHeader) -> None:
        shard = self._runtime.shard
        if header.records_count == 1 and not header.attributes & (_IN_TRANSACTION | COMPRESSION_MASK):
            key, value = only_record(piece, position, header.size)
            self._latest.pop(key or b"", None)
            self._latest[key or b""] = value
        elif header.is_control:
            for record in self._decode_batch(piece, position):
                self._replay_control(record, header)
        elif header.is_transactional:
            producer = Producer(header.producer_id, header.producer_epoch)
            for record in self._decode_batch(piece, position):
                decoded = decode(shard.kinds, record.key, record.value)
                if decoded is not None:
                    shard.replay(decoded, producer)
        else:
            latest = self._latest
            for record in self._decode_batch(piece, position):
                key = record.key or b""
                latest.pop(key, None)
                latest[key] = record.value

    def _replay_control(self, record: Record, header: BatchHeader) -> None:
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            return
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind in (_COMMIT, _ABORT):
            epoch = _MARKER_VALUE.unpack_from(record.value)[1] if record.value else -1
            self._runtime.shard.replay_marker(Marker(header.producer_id, header.producer_epoch, epoch, kind == _COMMIT))
