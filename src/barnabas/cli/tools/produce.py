"""`barnabas produce`: records from stdin or files, as text or as the JSON that `barnabas consume --json` writes.

A tombstone is only ever written where it was asked for: with --tombstones an empty value, or a null in JSON, is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.connect import CONNECTION, bootstrap, properties_of
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option

if TYPE_CHECKING:
    from barnabas.cli.records.producing import Failures
    from barnabas.client.producer import Producer, RecordMetadata

LONGEST_BYTES = 1 << 30

PARSER = Parser(
    name="produce",
    summary="Sends lines of stdin, or whole files, as records.",
    beyond_kafka=True,
    help_exit=0,
    positionals=(
        Positional(name="topic", help="Where to.", completes="topic"),
        Positional(name="file", help="Each file is one record; without any, stdin is read.", many=True, required=False),
    ),
    options=(
        *CONNECTION,
        option("--json", "-J", help="Each line is an object with key, value, headers, partition and timestamp."),
        option("--key-separator", "-K", takes="text", help="What stands between key and value in a line."),
        option("--delimiter", "-D", takes="text", default="\\n", help="What ends a record."),
        option("--tombstones", "-Z", help="An empty value, or a null in JSON, is a tombstone."),
        option("--key", "-k", takes="text", help="The key of every record that has none of its own."),
        option("--header", "-H", takes="name=value", repeated=True, help="A header of every record."),
        option("--partition", "-p", takes="partition", kind=int, help="The partition; else the key decides."),
        option(
            "--compression",
            "-z",
            takes="codec",
            choices=("none", "gzip", "snappy", "lz4", "zstd"),
            default="none",
            help="How batches are compressed.",
        ),
        option("--acks", takes="acks", choices=("0", "1", "all", "-1"), default="all", help="Whose answer counts."),
        option("--count", "-c", takes="count", kind=int, help="End after so many records."),
        option("--property", "-X", takes="key=value", repeated=True, help="A property of the producer."),
        option("--verbose", "-v", help="Tell where each record went, on stderr."),
    ),
)


class Outgoing(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int | None = None
    timestamp: int | None = None


def run(parsed: Parsed) -> int:
    from dataclasses import replace

    from barnabas.cli.client_log import listen
    from barnabas.cli.records.producing import Failures, feed_to_the_end, wait_for_topic
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer import Producer
    from barnabas.client.producer_settings import ProducerSettings
    from barnabas.client.settings import ClientSettings

    listen()
    topic = parsed.rest[0]
    properties = properties_of(parsed, pairs="property")
    properties |= {"compression.type": parsed.text("compression") or "", "acks": parsed.text("acks") or ""}
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=bootstrap(parsed, missing=None), client_id="barnabas-produce"
    )
    chosen = ProducerSettings.from_properties(properties)
    records = _records(parsed)
    with Cluster(settings) as cluster:
        wait_for_topic(cluster, topic, chosen.max_block_ms)
    failures = Failures(topic)
    producer = Producer(settings, replace(chosen, max_block_ms=2**31 - 1))
    return feed_to_the_end(producer, failures, lambda: _send(producer, topic, records, parsed, failures))


def _send(producer: Producer, topic: str, records: Iterator[Outgoing], parsed: Parsed, failures: Failures) -> None:
    from barnabas.client.errors import Refused

    verbose = "verbose" in parsed
    fixed = _fixed_headers(parsed)
    key, partition = parsed.text("key"), parsed.number("partition")
    left = parsed.number("count")

    def told(metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is not None:
            failures.add(error)
        elif verbose and metadata is not None:
            print(f"{metadata.topic}-{metadata.partition}@{metadata.offset}", file=sys.stderr)

    for record in records:
        if left == 0:
            return
        try:
            producer.send(
                topic,
                record.value,
                key.encode() if record.key is None and key is not None else record.key,
                [*record.headers, *fixed],
                partition=record.partition if partition is None else partition,
                timestamp=record.timestamp,
                callback=told,
            )
        except Refused as refusal:
            failures.add(refusal)
        left = None if left is None else left - 1


def _fixed_headers(parsed: Parsed) -> list[tuple[str, bytes | None]]:
    pairs = [text.partition("=") for text in parsed.texts("header")]
    return [(name, value.encode() if given else None) for name, given, value in pairs]


def _records(parsed: Parsed) -> Iterator[Outgoing]:
    if "json" in parsed and ("key-separator" in parsed or len(parsed.rest) > 1):
        raise UsageError("--json reads lines of stdin: it goes neither with --key-separator nor with files.")
    if len(parsed.rest) > 1:
        return _of_files(parsed.rest[1:])
    if "json" in parsed:
        return _of_json("tombstones" in parsed)
    return _of_lines(parsed)


def _of_files(paths: list[str]) -> Iterator[Outgoing]:
    for path in paths:
        with open(path, "rb") as file:
            yield Outgoing(None, file.read(), [])


def _of_json(tombstones: bool) -> Iterator[Outgoing]:
    from barnabas.cli.records.envelope import parse

    for number, line in enumerate(_pieces(b"\n"), 1):
        if not line.strip():
            continue
        read = parse(line, number)
        if read.value is None and not tombstones:
            raise ToolFailed(f"Line {number} is a tombstone: its value is null. --tombstones lets it through.")
        yield Outgoing(read.key, read.value, read.headers, read.partition, read.timestamp)


def _of_lines(parsed: Parsed) -> Iterator[Outgoing]:
    from barnabas.cli.tools.consume import unescape

    tombstones = "tombstones" in parsed
    separator = unescape(parsed.text("key-separator") or "") if "key-separator" in parsed else None
    for number, line in enumerate(_pieces(unescape(parsed.text("delimiter") or "")), 1):
        key: bytes | None = None
        value: bytes | None = line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                shown = line.decode(errors="replace")
                raise ToolFailed(f"Line {number} has no '{separator.decode()}' between key and value: {shown}")
        yield Outgoing(key, None if tombstones and not value else value, [])


def _pieces(delimiter: bytes) -> Iterator[bytes]:
    """What stands on stdin between delimiters; nothing behind the last is no record."""
    stream = sys.stdin.buffer
    if delimiter == b"\n":
        for line in stream:
            yield line.rstrip(b"\n")
        return
    if not delimiter:
        yield stream.read(LONGEST_BYTES)
        return
    rest = b""
    while chunk := stream.read1(1 << 16) if hasattr(stream, "read1") else stream.read(1 << 16):
        *whole, rest = (rest + chunk).split(delimiter)
        yield from whole
    if rest:
        yield rest
