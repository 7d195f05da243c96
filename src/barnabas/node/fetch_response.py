"""The answer to a Fetch, packed by hand: a few header bytes before each partition's records, which are not copied.

The layout per partition differs in three ways: from version 5 on it has the log start offset, from 11 on the preferred
read replica, and from 12 on lengths are variable and tagged fields follow: a diverging epoch, the current leader, and
behind the partitions (from 16 on) the endpoints of the leaders named.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from barnabas.node.fetch_sessions import PartitionFetch
from barnabas.node.requests import RawResponse, Region
from barnabas.wire.codec import put_uvarint
from barnabas.wire.messages.fetch import NodeEndpoint
from barnabas.wire.uuids import Uuid

FLEXIBLE_SINCE = 12
ENDPOINTS_SINCE = 16
NO_PREFERRED_REPLICA = -1

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


def pack_answer(
    version: int,
    session_id: int,
    fetches: Sequence[PartitionFetch],
    error_code: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> RawResponse:
    """Partitions in the order given; neighbours of one topic come together."""
    out = bytearray()
    parts: Parts = []
    topics = group_by_topic(fetches)
    if version >= FLEXIBLE_SINCE:
        out += _head_v12(0, error_code, session_id)
        put_uvarint(out, len(topics) + 1)
        for topic in topics:
            out = _pack_topic_flexible(out, parts, topic)
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
            out = _pack_topic(out, parts, version, topic)
    parts.append(out)
    return RawResponse(parts)


def group_by_topic(fetches: Sequence[PartitionFetch]) -> list[list[PartitionFetch]]:
    groups: list[list[PartitionFetch]] = []
    last = None
    for fetch in fetches:
        if fetch.topic_key != last:
            last = fetch.topic_key
            groups.append([fetch])
        else:
            groups[-1].append(fetch)
    return groups


def _pack_topic_flexible(out: bytearray, parts: Parts, topic: list[PartitionFetch]) -> bytearray:
    key = topic[0].topic_key
    if isinstance(key, Uuid):
        out += key
    else:
        _put_string(out, key)
    put_uvarint(out, len(topic) + 1)
    for fetch in topic:
        aborted = fetch.aborted_transactions
        out += _V12(
            fetch.index,
            fetch.error_code,
            fetch.high_watermark,
            fetch.last_stable_offset,
            fetch.log_start_offset,
            0 if aborted is None else 1,
            NO_PREFERRED_REPLICA,
        )
        if aborted:
            _insert_aborted_flexible(out, fetch)
        size = len(fetch.records)
        if size < 127:
            out.append(size + 1)
        else:
            put_uvarint(out, size + 1)
        if size:
            parts.append(out)
            parts.append(fetch.records)
            out = bytearray()
        if fetch.diverging_epoch is None and fetch.current_leader is None:
            out.append(0)
        else:
            _pack_tags(out, fetch)
    out.append(0)
    return out


def _insert_aborted_flexible(out: bytearray, fetch: PartitionFetch) -> None:
    """In place of the count of none that has just been packed, in front of the preferred read replica."""
    assert fetch.aborted_transactions is not None
    del out[-5:]
    put_uvarint(out, len(fetch.aborted_transactions) + 1)
    for each in fetch.aborted_transactions:
        out += _aborted(*each, 0)
    out += _int32(NO_PREFERRED_REPLICA)


def _pack_topic(out: bytearray, parts: Parts, version: int, topic: list[PartitionFetch]) -> bytearray:
    name = str(topic[0].topic_key).encode()
    out += struct.pack(">h", len(name))
    out += name
    out += _int32(len(topic))
    for fetch in topic:
        aborted = -1 if fetch.aborted_transactions is None else len(fetch.aborted_transactions)
        if version >= 5:
            out += _V5(
                fetch.index,
                fetch.error_code,
                fetch.high_watermark,
                fetch.last_stable_offset,
                fetch.log_start_offset,
                aborted,
            )
        else:
            out += _V4(fetch.index, fetch.error_code, fetch.high_watermark, fetch.last_stable_offset, aborted)
        for each in fetch.aborted_transactions or ():
            out += struct.pack(">qq", *each)
        if version >= 11:
            out += _int32(NO_PREFERRED_REPLICA)
        out += _int32(len(fetch.records))
        if len(fetch.records):
            parts.append(out)
            parts.append(fetch.records)
            out = bytearray()
    return out


def _pack_tags(out: bytearray, fetch: PartitionFetch) -> None:
    out.append((fetch.diverging_epoch is not None) + (fetch.current_leader is not None))
    if fetch.diverging_epoch is not None:
        out += _diverging_epoch(0, 13, *fetch.diverging_epoch, 0)
    if fetch.current_leader is not None:
        out += _current_leader(1, 9, *fetch.current_leader, 0)


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
