"""Keys and values of Kafka's own logs in words: committed offsets and groups, transactions, metadata, share groups.

A decoder takes a record's key and value and answers what is printed for each; None prints nothing.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from barnabas.cli.errors import ToolFailed
from barnabas.cli.files.record_json import record_json
from barnabas.wire.batch import Record as LogRecord
from barnabas.wire.schema import Record

Decoder = Callable[[LogRecord], tuple[str | None, str | None]]
SHORT = struct.Struct(">h")
DELETED = "<DELETE>"


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def plain(key_class: str, value_class: str) -> Decoder:
    """By Kafka's decoder classes for ordinary topics."""
    of_key, of_value = _PLAIN.get(key_class.rpartition(".")[2]), _PLAIN.get(value_class.rpartition(".")[2])
    if of_key is None or of_value is None:
        wrong = key_class if of_key is None else value_class
        raise ToolFailed(f"{wrong} is not a decoder that is known here: {', '.join(_PLAIN)} are.")
    key_decoder, value_decoder = of_key, of_value

    def decode(record: LogRecord) -> tuple[str | None, str | None]:
        return (
            None if record.key is None else key_decoder(bytes(record.key)),
            None if record.value is None else value_decoder(bytes(record.value)),
        )

    return decode


def _number(format: str) -> Callable[[bytes], str]:
    def decode(data: bytes) -> str:
        size = struct.calcsize(format)
        if len(data) != size:
            raise ToolFailed(f"A record holds {len(data)} bytes where a number of {size} bytes was expected.")
        return str(struct.unpack(format, data)[0])

    return decode


_PLAIN: Mapping[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode("utf-8", errors="replace"),
    "IntegerDecoder": _number(">i"),
    "LongDecoder": _number(">q"),
    "DefaultDecoder": lambda data: data.hex(),
}


def _record_types(*modules: str) -> Iterator[tuple[int, str, type[Record]]]:
    import importlib

    for module in modules:
        for item in vars(importlib.import_module(f"barnabas.wire.records.{module}")).values():
            if isinstance(item, type) and issubclass(item, Record) and item.api_key >= 0:
                yield item.api_key, item.__name__, item


def _coordinator_decoder(value_json: Callable[[Record, int], Any], *modules: str) -> Decoder:
    """Of a coordinator's log: a key begins with its type, a value with its version."""
    keys: dict[int, type[Record]] = {}
    values: dict[int, type[Record]] = {}
    for api_key, name, record_type in _record_types(*modules):
        (keys if name.endswith("Key") else values)[api_key] = record_type

    def decode(record: LogRecord) -> tuple[str | None, str | None]:
        if record.key is None or len(record.key) < SHORT.size:
            raise ToolFailed(f"The record at offset {record.offset} has no key: is this the log of a coordinator?")
        (kind,) = SHORT.unpack_from(record.key)
        if kind not in keys:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key, _ = keys[kind].decode_from(record.key, SHORT.size, 0)
        told = compact({"type": str(kind), "data": record_json(key, 0)})
        if record.value is None:
            return told, DELETED
        (version,) = SHORT.unpack_from(record.value)
        _require_known(values[kind], version)
        value, _ = values[kind].decode_from(record.value, SHORT.size, version)
        return told, compact({"version": str(version), "data": value_json(value, version)})

    return decode


def _require_known(kind: type[Record], version: int) -> None:
    from barnabas.wire.codec import DecodeError

    low, high = kind.valid_versions
    if not low <= version <= high:
        raise DecodeError(f"{kind.__name__} version {version} is not known, {low} to {high} are")


def offsets() -> Decoder:
    return _coordinator_decoder(_group_value, "groups", "consumer_groups", "share_groups", "streams_groups")


def transactions() -> Decoder:
    return _coordinator_decoder(record_json, "transactions")


def share_state() -> Decoder:
    return _coordinator_decoder(record_json, "share_state")


def _group_value(value: Record, version: int) -> Any:
    """The members of consumer groups say what they subscribed to and got in bytes of their own protocol."""
    from barnabas.wire.records.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    told = record_json(value, version)
    if told.get("protocolType") == "consumer" and "members" in told:
        for member, shown in zip(getattr(value, "members", []), told["members"], strict=True):
            for name, kind in (
                ("subscription", ConsumerProtocolSubscription),
                ("assignment", ConsumerProtocolAssignment),
            ):
                opened = _opened(getattr(member, name), kind)
                if opened is not None:
                    shown[name] = opened
    return told


def _opened(data: bytes, kind: type[Record]) -> Any:
    from barnabas.wire.codec import DecodeError

    if len(data) < SHORT.size:
        return None
    (version,) = SHORT.unpack_from(data)
    try:
        record, _ = kind.decode_from(data, SHORT.size, version)
    except (DecodeError, struct.error, IndexError):
        return None
    return record_json(record, version)


def metadata() -> Decoder:
    from barnabas.wire.codec import DecodeError
    from barnabas.wire.records.framing import decode_metadata_record

    def decode(record: LogRecord) -> tuple[str | None, str | None]:
        if record.value is None:
            return None, None
        try:
            value, version = decode_metadata_record(record.value)
        except DecodeError as error:
            return None, f"Error at {record.offset}, skipping. {error}"
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(value).__name__).upper()
        return None, compact({"type": kind, "version": version, "data": record_json(value, version)})

    return decode


CONTROL_TITLES = {
    2: "LeaderChange:",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}


def control(record: LogRecord) -> str:
    """What a control record says."""
    from barnabas.wire.records import raft
    from barnabas.wire.records.control import EndTxnMarker

    kinds: Mapping[int, type[Record]] = {
        2: raft.LeaderChangeMessage,
        3: raft.SnapshotHeaderRecord,
        4: raft.SnapshotFooterRecord,
        5: raft.KRaftVersionRecord,
        6: raft.VotersRecord,
    }
    key, value = bytes(record.key or b""), bytes(record.value or b"")
    (kind,) = SHORT.unpack_from(key, SHORT.size)
    if kind in (0, 1):
        marker, _ = EndTxnMarker.decode_from(value, SHORT.size, 0)
        return f"endTxnMarker: {'COMMIT' if kind else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind not in kinds:
        return f"controlType: UNKNOWN({kind})"
    (version,) = SHORT.unpack_from(value)
    told = record_json(kinds[kind].decode(value, version), version)
    return f"{CONTROL_TITLES[kind]} {compact(told)}"
