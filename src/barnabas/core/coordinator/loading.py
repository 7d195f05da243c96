"""Loading: what lies in the log, replayed into a shard.

Of several values of one key only the last is replayed, as far as memory allows: it is all that compaction would have
left. Records of a transaction are replayed one by one until its marker decides about them. A record that cannot be
read is skipped and told: the other groups or transactions of the partition must not wait for it for ever.
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
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.primitives import CodecError

# The records of the batch at a position; of each, `key` and `value` are looked at.
Decoder = Callable[[bytes, int], Iterable[Any]]

_IN_TRANSACTION = CONTROL_FLAG | TRANSACTIONAL_FLAG
_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
# How many keys are remembered in the hope of a later value, and how many are replayed in one go.
LATEST_MAX = 200_000
TURN_RECORDS = 1_000
# How much of a key that cannot be read is told.
KEY_SHOWN_BYTES = 64
_COMMIT = 1
_ABORT = 0


def marker_record(marker: Marker) -> tuple[bytes, bytes]:
    return _CONTROL_KEY.pack(0, _COMMIT if marker.committed else _ABORT), _MARKER_VALUE.pack(
        0, marker.coordinator_epoch
    )


class Loader:
    """Feeds a shard with pieces of its log, in order. A turn of each iterator is a few milliseconds of work."""

    def __init__(
        self,
        runtime: ShardRuntime[Any],
        first_offset: int,
        decode_batch: Decoder = decode_records,
        on_skipped: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`on_skipped` is told why a record, or the records of a batch, could not be read."""
        self._runtime = runtime
        self._decode_batch = decode_batch
        self._on_skipped = on_skipped
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
                key, value = entries[at]
                self._replay_record(key, value, None)
                at += 1
            yield

    def _replay_record(self, key: bytes | None, value: bytes | None, producer: Producer | None) -> None:
        shard = self._runtime.shard
        try:
            decoded = decode(shard.kinds, key, value)
            if decoded is not None:
                shard.replay(decoded, producer)
        except (CodecError, ValueError) as error:
            self._on_skipped(f"the record with key {(key or b'')[:KEY_SHOWN_BYTES].hex()}: {error}")

    def _replay(self, piece: bytes, position: int, header: BatchHeader) -> None:
        try:
            self._replay_batch(piece, position, header)
        except KafkaError as error:
            self._on_skipped(f"the batch at offset {header.base_offset}: {error.message}")

    def _replay_batch(self, piece: bytes, position: int, header: BatchHeader) -> None:
        if not self._runtime.shard.keeps_last_only:
            for record in () if header.is_control else self._read(piece, position):
                self._replay_record(record.key, record.value, None)
            return
        if header.records_count == 1 and not header.attributes & (_IN_TRANSACTION | COMPRESSION_MASK):
            key, value = only_record(piece, position, header.size)
            self._latest.pop(key or b"", None)
            self._latest[key or b""] = value
            return
        records = self._read(piece, position)
        if header.is_control:
            for record in records:
                self._replay_control(record, header)
        elif header.is_transactional:
            producer = Producer(header.producer_id, header.producer_epoch)
            for record in records:
                self._replay_record(record.key, record.value, producer)
        else:
            latest = self._latest
            for record in records:
                key = record.key or b""
                latest.pop(key, None)
                latest[key] = record.value

    def _read(self, piece: bytes, position: int) -> Iterable[Any]:
        try:
            yield from self._decode_batch(piece, position)
        except KafkaError:
            raise
        except Exception as error:  # of a compiled reader, which has several kinds of its own
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Records cannot be read: {error}") from error

    def _replay_control(self, record: Record, header: BatchHeader) -> None:
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            return
        _, kind = _CONTROL_KEY.unpack_from(record.key)
        if kind in (_COMMIT, _ABORT):
            told = record.value is not None and len(record.value) >= _MARKER_VALUE.size
            epoch = _MARKER_VALUE.unpack_from(record.value or b"")[1] if told else -1
            self._runtime.shard.replay_marker(Marker(header.producer_id, header.producer_epoch, epoch, kind == _COMMIT))
