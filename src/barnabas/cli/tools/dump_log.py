"""`kafka-dump-log`: prints what the files of a log hold."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

from barnabas.cli.errors import ToolFailed
from barnabas.cli.files import log_decoders
from barnabas.cli.files.index_files import (
    Findings,
    base_offset,
    dump_aborted,
    dump_offset_index,
    dump_producers,
    dump_time_index,
    mapped,
    records_of,
)
from barnabas.cli.files.log_decoders import Decoder
from barnabas.cli.files.remote_log import remote_log
from barnabas.cli.options import Parsed, Parser, option
from barnabas.wire.batch import BatchHeader, Record, add_to_sequence, batch_crc, iterate_batches
from barnabas.wire.codec import DecodeError

INT_MAX = 2**31 - 1
MAGIC = 2
STRING_DECODER = "org.apache.kafka.tools.api.StringDecoder"
DECODERS = {
    "offsets-decoder": log_decoders.offsets,
    "transaction-log-decoder": log_decoders.transactions,
    "cluster-metadata-decoder": log_decoders.metadata,
    "remote-log-metadata-decoder": remote_log,
    "share-group-state-decoder": log_decoders.share_state,
}

PARSER = Parser(
    name="dump-log",
    summary="Prints what the files of a log hold: segments, indexes, snapshots.",
    options=(
        option("--files", takes="file,file,...", repeated=True, help="The files to print.", completes="file"),
        option("--print-data-log", help="Print keys and values; every decoder implies it."),
        option("--deep-iteration", help="Print every record, not only batches; --print-data-log implies it."),
        option("--skip-record-metadata", help="Print of records only keys and values."),
        option("--max-bytes", takes="bytes", kind=int, default=INT_MAX, help="How much of a log is read."),
        option("--max-message-size", takes="bytes", kind=int, default=5242880, help="Without effect.", hidden=True),
        option("--verify-index-only", help="Check indexes against their log without printing them."),
        option("--index-sanity-check", help="Only the check of indexes that a broker does when it starts."),
        option("--offsets-decoder", help="The records are those of __consumer_offsets."),
        option("--transaction-log-decoder", help="The records are those of __transaction_state."),
        option("--cluster-metadata-decoder", help="The records are those of __cluster_metadata."),
        option("--share-group-state-decoder", help="The records are those of __share_group_state."),
        option("--remote-log-metadata-decoder", help="The records are those of __remote_log_metadata."),
        option("--key-decoder-class", takes="class", default=STRING_DECODER, help="How keys are read."),
        option("--value-decoder-class", takes="class", default=STRING_DECODER, help="How values are read."),
    ),
)


# Other files are ignored with a line, as Kafka's tool does it.
KNOWN_SUFFIXES = (".log", ".checkpoint", ".index", ".timeindex", ".txnindex", ".snapshot")


def run(parsed: Parsed) -> int:
    parsed.require("files")
    dump = _Dump(parsed)
    for path in (path.strip() for text in parsed.texts("files") for path in text.split(",")):
        print(f"Dumping {path}")
        if Path(path).suffix in KNOWN_SUFFIXES and not Path(path).exists():
            raise ToolFailed(f"There is no file {path}.")
        dump.file(path)
    sys.stdout.flush()
    dump.findings.tell()
    return 0


class _Dump:
    def __init__(self, parsed: Parsed) -> None:
        chosen = [name for name in DECODERS if name in parsed]
        self.prints = "print-data-log" in parsed or bool(chosen)
        for name in ("key-decoder-class", "value-decoder-class"):
            self.prints = self.prints or name in parsed
        self.is_deep = self.prints or "deep-iteration" in parsed
        self.skips_metadata = "skip-record-metadata" in parsed
        self.max_bytes = parsed.number("max-bytes") or 0
        self.sanity_only = "index-sanity-check" in parsed
        self.verify_only = "verify-index-only" in parsed
        self.findings = Findings()
        classes = parsed.text("key-decoder-class") or "", parsed.text("value-decoder-class") or ""
        self.decode: Decoder = DECODERS[chosen[0]]() if chosen else log_decoders.plain(*classes)

    def file(self, path: str) -> None:
        name = path.rpartition("/")[2]
        suffix = f".{name.rpartition('.')[2]}"
        if suffix in (".log", ".checkpoint"):
            self._log(path, name)
        elif suffix in (".index", ".timeindex"):
            dump = dump_offset_index if suffix == ".index" else dump_time_index
            dump(path, sanity_only=self.sanity_only, verify_only=self.verify_only, findings=self.findings)
        elif suffix == ".snapshot":
            dump_producers(path)
        elif suffix == ".txnindex":
            dump_aborted(path)
        else:
            sys.stdout.flush()
            print(f"Ignoring unknown file {path}", file=sys.stderr)

    def _log(self, path: str, name: str) -> None:
        print(_title(path, name))
        content = mapped(path)[: self.max_bytes]
        end, last_offset = 0, -1
        for position, header in iterate_batches(content):
            if header.magic != MAGIC:
                raise ToolFailed(f"{path} holds batches of format {header.magic}, which only older Kafkas read.")
            print(_batch_line(content, position, header))
            end = position + header.size
            if self.is_deep:
                last_offset = self._records(path, content, position, header, last_offset)
        if len(content) > end and self.max_bytes == INT_MAX:
            print(f"Found {len(content) - end} invalid bytes at the end of {name}")

    def _records(self, path: str, content: memoryview, position: int, header: BatchHeader, last_offset: int) -> int:
        for record in records_of(path, content, position):
            if last_offset != -1 and record.offset != last_offset + 1:
                self.findings.gaps.setdefault(path, []).append((last_offset, record.offset))
            last_offset = record.offset
            try:
                told = self._record(record, header)
            except (DecodeError, struct.error) as error:
                raise ToolFailed(
                    f"The record at offset {record.offset} of {path} is not what was expected: {error}."
                ) from None
            print(f"| {told}" if told else "")
        return last_offset

    def _record(self, record: Record, header: BatchHeader) -> str:
        parts = []
        if not self.skips_metadata:
            parts.append(_record_line(record, header))
            if header.is_control:
                parts.append(log_decoders.control(record))
        if self.prints and not header.is_control:
            key, payload = self.decode(record)
            parts += [f"key: {key}"] if key is not None else []
            parts += [f"payload: {payload}"] if payload is not None else []
        return " ".join(parts)


def _title(path: str, name: str) -> str:
    if name.endswith(".log"):
        return f"Log starting offset: {base_offset(path)}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    found = re.match(r"(\d{20})-(\d{10})", name)
    if found is None:
        raise ToolFailed(f"{name} is not the name of a snapshot.")
    return f"Snapshot end offset: {int(found[1])}, epoch: {int(found[2])}"


def _time_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _batch_line(content: memoryview, position: int, header: BatchHeader) -> str:
    horizon = header.delete_horizon_ms
    last_sequence = header.last_sequence if header.base_sequence >= 0 else -1
    is_valid = batch_crc(content, position, header.size) == header.crc
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.records_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {last_sequence} producerId: {header.producer_id} "
        f"producerEpoch: {header.producer_epoch} partitionLeaderEpoch: {header.leader_epoch} "
        f"isTransactional: {_yes(header.is_transactional)} isControl: {_yes(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {position} {_time_type(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: {_yes(is_valid)}"
    )


def _record_line(record: Record, header: BatchHeader) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    sequence = -1
    if header.base_sequence >= 0:
        sequence = add_to_sequence(header.base_sequence, record.offset - header.base_offset)
    headers = ",".join(
        key if isinstance(key, str) else bytes(key).decode(errors="replace") for key, _ in record.headers
    )
    return (
        f"offset: {record.offset} {_time_type(header)}: {record.timestamp} keySize: {key_size} valueSize: {value_size} "
        f"sequence: {sequence} headerKeys: [{headers}]"
    )
