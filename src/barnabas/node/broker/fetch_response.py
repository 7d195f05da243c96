"""The answer to a Fetch, packed by hand: a few header bytes before each partition's records, which are not copied.

The layout per partition differs in three ways: from version 5 on it has the log start offset, from 11 on the preferred
read replica, and from 12 on lengths are variable and tagged fields follow: a diverging epoch, the current leader, and
behind the partitions (from 16 on) the endpoints of the leaders named.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from barnabas.node.broker.fetch_sessions import PartitionFetch
from barnabas.node.broker.partition import PartitionRead
from barnabas.node.requests import RawResponse, Region
from barnabas.node.turns import Turn
from barnabas.wire.codec import put_uvarint
from barnabas.wire.messages.fetch import NodeEndpoint
from barnabas.wire.uuids import Uuid

FLEXIBLE_SINCE = 12
ENDPOINTS_SINCE = 16
NO_PREFERRED_REPLICA = -1
PIECE_PARTITIONS = 500

# index, error, high watermark, last stable offset, [log start offset,] aborted transactions[, preferred read replica]
_V4 = struct.Struct(">ihqqi").pack
_V5 = struct.Struct(">ihqqqi").pack
_V12 = struct.Struct(">ihqqqBi").pack
_aborted = struct.Struct(">qqB").pack
_diverging_epoch = struct.Struct(">BBiqB").pack
_current_leader = struct.Struct(">BBiiB").pack
_int32 = struct.Struct(">i").pack
_head_v7 = struct.Struct(">ihii").pack
_head_v12 = struct.Struct(">ihi").pack

Parts = list[bytes | bytearray | memoryview | Region]
Found: TypeAlias = tuple[PartitionFetch, PartitionRead]


async def pack_answer(
    version: int,
    session_id: int,
    found: Sequence[Found],
    error_code: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> RawResponse:
    """Partitions in the order given; neighbours of one topic come together."""
    out = bytearray()
    parts: Parts = []
    topics = group_by_topic(found) if len(found) > 1 else [[each] for each in found]
    turn = Turn() if len(found) > PIECE_PARTITIONS else None
    if version >= FLEXIBLE_SINCE:
        out += _head_v12(0, error_code, session_id)
        put_uvarint(out, len(topics) + 1)
        for topic in topics:
            _begin_topic_flexible(out, topic)
            for piece in _pieces(topic):
                out = _pack_partitions_flexible(out, parts, piece)
                if turn is not None and turn.is_over:
                    await turn.give_up()
            out.append(0)
        if endpoints and version >= ENDPOINTS_SINCE:
            packed = _pack_endpoints(endpoints)
            out += b"\x01\x00"
            put_uvarint(out, len(packed))
            out += packed
        else:
            out.append(0)
    else:
        out += _head_v7(0, error_code, session_id, len(topics)) if version >= 7 else struct.pack(">ii", 0, len(topics))
        for topic in topics:
            _begin_topic(out, topic)
            for piece in _pieces(topic):
                out = _pack_partitions(out, parts, version, piece)
                if turn is not None and turn.is_over:
                    await turn.give_up()
    parts.append(out)
    return RawResponse(parts, begins_with_throttle_time=True)


def group_by_topic(found: Sequence[Found]) -> list[list[Found]]:
    groups: list[list[Found]] = []
    last = None
    for each in found:
        key = each[0].topic_key
        if key != last:
            last = key
            groups.append([each])
        else:
            groups[-1].append(each)
    return groups


def _pieces(topic: list[Found]) -> Sequence[list[Found]]:
    if len(topic) <= PIECE_PARTITIONS:
        return (topic,)
    return [topic[start : start + PIECE_PARTITIONS] for start in range(0, len(topic), PIECE_PARTITIONS)]


def _begin_topic_flexible(out: bytearray, topic: list[Found]) -> None:
    key = topic[0][0].topic_key
    if isinstance(key, Uuid):
        out += key
    else:
        _put_string(out, key)
    put_uvarint(out, len(topic) + 1)


def _pack_partitions_flexible(out: bytearray, parts: Parts, topic: list[Found]) -> bytearray:
    for fetch, found in topic:
        aborted = found.aborted_transactions
        out += _V12(
            fetch.index,
            found.error_code,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
            0 if aborted is None else 1,
            found.preferred_read_replica,
        )
        if aborted:
            _insert_aborted_flexible(out, aborted)
        size = len(found.records)
        if size < 127:
            out.append(size + 1)
        else:
            put_uvarint(out, size + 1)
        if size:
            parts.append(out)
            parts.append(found.records)
            out = bytearray()
        if found.diverging_epoch is None and found.current_leader is None:
            out.append(0)
        else:
            _pack_tags(out, found)
    return out


def _insert_aborted_flexible(out: bytearray, aborted: list[tuple[int, int]]) -> None:
    """In place of the count of none that has just been packed, in front of the preferred read replica."""
    del out[-5:]
    put_uvarint(out, len(aborted) + 1)
    for each in aborted:
        out += _aborted(*each, 0)
    out += _int32(NO_PREFERRED_REPLICA)


def _begin_topic(out: bytearray, topic: list[Found]) -> None:
    name = str(topic[0][0].topic_key).encode()
    out += struct.pack(">h", len(name))
    out += name
    out += _int32(len(topic))


def _pack_partitions(out: bytearray, parts: Parts, version: int, topic: list[Found]) -> bytearray:
    for fetch, found in topic:
        aborted = -1 if found.aborted_transactions is None else len(found.aborted_transactions)
        if version >= 5:
            out += _V5(
                fetch.index,
                found.error_code,
                found.high_watermark,
                found.last_stable_offset,
                found.log_start_offset,
                aborted,
            )
        else:
            out += _V4(fetch.index, found.error_code, found.high_watermark, found.last_stable_offset, aborted)
        for each in found.aborted_transactions or ():
            out += struct.pack(">qq", *each)
        if version >= 11:
            out += _int32(found.preferred_read_replica)
        out += _int32(len(found.records))
        if len(found.records):
            parts.append(out)
            parts.append(found.records)
            out = bytearray()
    return out


def _pack_tags(out: bytearray, found: PartitionRead) -> None:
    out.append((found.diverging_epoch is not None) + (found.current_leader is not None))
    if found.diverging_epoch is not None:
        out += _diverging_epoch(0, 13, *found.diverging_epoch, 0)
    if found.current_leader is not None:
        out += _current_leader(1, 9, *found.current_leader, 0)


def _pack_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytearray:
    out = bytearray()
    put_uvarint(out, len(endpoints) + 1)
    for each in endpoints:
        out += _int32(each.node_id)
        _put_string(out, each.host)
        out += _int32(each.port)
        if each.rack is None:
            out.append(0)
        else:
            _put_string(out, each.rack)
        out.append(0)
    return out


def _put_string(out: bytearray, text: str) -> None:
    encoded = text.encode()
    put_uvarint(out, len(encoded) + 1)
    out += encoded
