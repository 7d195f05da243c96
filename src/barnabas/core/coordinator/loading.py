"""Loading: what lies in the log, replayed into a shard.

Of several values of one key in a piece of the log only the last is replayed, which is all that compaction would have
left. Records of a transaction are replayed one by one until its marker decides about them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from barnabas.core.coordinator.decision import Marker, Producer
from barnabas.core.coordinator.records import decode
from barnabas.core.coordinator.runtime import Shard, ShardRuntime
from barnabas.wire.batch import BatchHeader, Record, decode_records, iterate_batches

Decoder = Callable[[bytes, int], Iterable[Record]]

_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_COMMIT = 1
_ABORT = 0


def marker_record(marker: Marker) -> tuple[bytes, bytes]:
    return _CONTROL_KEY.pack(0, _COMMIT if marker.committed else _ABORT), _MARKER_VALUE.pack(
        0, marker.coordinator_epoch
    )


class Loader:
    """Feeds a shard with pieces of its log, in order."""

    def __init__(self, runtime: ShardRuntime[Shard], first_offset: int, decode_batch: Decoder = decode_records) -> None:
        self._runtime = runtime
        self._decode_batch = decode_batch
        self._latest: dict[bytes, bytes | None] = {}
        self.next_offset = first_offset

    def feed(self, piece: bytes, high_watermark: int) -> None:
        """Whole batches, the first of which may begin before the next offset."""
        for position, header in iterate_batches(piece):
            if header.last_offset < self.next_offset:
                continue
            if header.last_offset >= high_watermark:
                self._flush()
                self._runtime.loaded_uncommitted(header.last_offset + 1)
            self._replay(piece, position, header)
            self.next_offset = header.last_offset + 1
            if self._runtime.timeline.recording:
                self._flush()
        self._flush()

    def _replay(self, piece: bytes, position: int, header: BatchHeader) -> None:
        shard = self._runtime.shard
        if header.is_control:
            self._flush()
            for record in self._decode_batch(piece, position):
                self._replay_control(record, header)
        elif header.is_transactional:
            self._flush()
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

    def _flush(self) -> None:
        shard = self._runtime.shard
        latest, self._latest = self._latest, {}
        for key, value in latest.items():
            decoded = decode(shard.kinds, key, value)
            if decoded is not None:
                shard.replay(decoded, None)
