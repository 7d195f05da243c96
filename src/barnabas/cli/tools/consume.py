"""`barnabas consume`: the records of topics on stdout, for pipes. Without --group nothing is committed anywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, settings
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option
from barnabas.cli.terminal import ProgressBar

if TYPE_CHECKING:
    from barnabas.client.records import ConsumerRecord

POLL_MS = 200
Write = Callable[["ConsumerRecord"], bytes]

PARSER = Parser(
    name="consume",
    summary="Prints the records of topics, as text or as JSON, one per line.",
    beyond_kafka=True,
    help_exit=0,
    positionals=(Positional(name="topic", help="What to read; several may be given.", many=True, completes="topic"),),
    options=(
        *CONNECTION,
        option("--partition", "-p", takes="partition", kind=int, repeated=True, help="Only these partitions."),
        option(
            "--offset",
            "-o",
            takes="place",
            default="beginning",
            help="Where to begin: beginning, end, an offset, -N for the last N records of each partition, or a point "
            "in time: @5m, @2024-05-01T12:00:00.",
        ),
        option("--until", "-u", takes="time", help="Leave out what is newer than this: 5m ago, or a date."),
        option("--count", "-c", takes="count", kind=int, help="End after so many records."),
        option(
            "--exit", "-e", "--no-follow", help="End where the topics ended at the start, instead of waiting for more."
        ),
        option("--json", "-J", help="A JSON object per record, which `barnabas produce --json` reads."),
        option(
            "--format",
            "-f",
            takes="format",
            help="Text with %t topic, %p partition, %o offset, %k key, %s value, %h headers, %T timestamp, %K and %S "
            "lengths, and \\n, \\t.",
        ),
        option("--key-separator", "-K", takes="text", help="Print the key and this before the value."),
        option("--delimiter", "-D", takes="text", default="\\n", help="What ends a record."),
        option("--null", "-Z", takes="text", default="", help="What stands for a null key or value."),
        option(
            "--isolation-level",
            takes="level",
            choices=("read_uncommitted", "read_committed"),
            default="read_uncommitted",
            help="Whether open and aborted transactions are read.",
        ),
        option(
            "--group",
            "-G",
            takes="group",
            help="Read as a member of this group: it goes on where it was, and commits what was printed.",
            completes="group",
        ),
        option("--quiet", "-q", help="Do not tell on stderr where a topic ended."),
    ),
)


def run(parsed: Parsed) -> int:
    if "json" in parsed and "format" in parsed:
        raise UsageError("--json and --format exclude each other.")
    if "group" in parsed:
        return _consume_as_member(parsed)
    from barnabas.cli.arguments.points_in_time import since_ms
    from barnabas.cli.records.reading import BEGINNING, end_offsets, later_starts, partitions_of, read, start_offsets
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher, FetchSettings

    write = _writer(parsed)
    now_ms = round(time.time() * 1000)
    until_ms = since_ms(parsed.text("until") or "", now_ms) if "until" in parsed else None
    isolation = parsed.text("isolation-level") or ""
    left = parsed.number("count")
    with Cluster(settings(parsed, client_id="barnabas-consume", missing=None)) as cluster:
        partitions = partitions_of(cluster, parsed.rest, [int(text) for text in parsed.texts("partition")])
        begin = parsed.text("offset") or ""
        positions = start_offsets(cluster, partitions, begin, now_ms)
        if begin in BEGINNING and "quiet" not in parsed and (hint := later_starts(positions)):
            print(hint, file=sys.stderr)
        ends = end_offsets(cluster, partitions, isolation) if "exit" in parsed or until_ms is not None else None
        out = sys.stdout.buffer
        bar = ProgressBar(sum(ends[each] - positions[each] for each in ends), "records") if ends is not None else None
        printed = 0
        with Fetcher(cluster, FetchSettings(isolation=isolation)) as fetcher:
            for records in read(fetcher, positions, until=ends):
                wanted = [each for each in records if until_ms is None or each.timestamp <= until_ms][:left]
                out.write(b"".join([write(record) for record in wanted]))
                out.flush()
                left = None if left is None else left - len(wanted)
                printed += len(records)
                if bar is not None:
                    bar.show(printed)
                if left == 0:
                    break
        if bar is not None:
            bar.end()
    if "exit" in parsed and "quiet" not in parsed and sys.stderr.isatty():
        print(f"Reached the end of {', '.join(parsed.rest)}.", file=sys.stderr)
    return 0


def _consume_as_member(parsed: Parsed) -> int:
    for name in ("partition", "until", "exit"):
        parsed.refuse("group", name)
    begin = parsed.text("offset") or ""
    if begin not in ("beginning", "earliest", "end", "latest"):
        raise UsageError("With --group, --offset is beginning or end: where to begin if the group has no offset yet.")
    from dataclasses import replace

    from barnabas.client.consumer import ConsumerSettings, GroupConsumer

    chosen = settings(parsed, client_id="barnabas-consume", missing=None)
    member = replace(
        ConsumerSettings.from_properties(dict(chosen.properties) | {"group.id": parsed.text("group") or ""}),
        offset_reset="earliest" if begin in ("beginning", "earliest") else "latest",
    )
    write, left = _writer(parsed), parsed.number("count")
    with GroupConsumer(chosen, member, topics=parsed.rest) as consumer:
        while left is None or left > 0:
            records = consumer.poll(POLL_MS)
            wanted = records if left is None else records[:left]
            sys.stdout.buffer.write(b"".join([write(record) for record in wanted]))
            sys.stdout.buffer.flush()
            left = None if left is None else left - len(wanted)
            seen = set()
            for record in records[len(wanted) :]:
                if (record.topic, record.partition) not in seen:
                    seen.add((record.topic, record.partition))
                    consumer.seek(record.topic, record.partition, record.offset)
    return 0


def _writer(parsed: Parsed) -> Write:
    end = unescape(parsed.text("delimiter") or "")
    if "json" in parsed:
        from barnabas.cli.records.envelope import record_line

        return lambda record: record_line(record).encode() + b"\n"
    null = (parsed.text("null") or "").encode()
    if "format" in parsed:
        return formatted(parsed.text("format") or "", null)
    if "key-separator" in parsed:
        separator = unescape(parsed.text("key-separator") or "")
        return lambda record: _or(record.key, null) + separator + _or(record.value, null) + end
    return lambda record: _or(record.value, null) + end


def unescape(text: str) -> bytes:
    """`\\n`, `\\t`, `\\0`, `\\x1f` and the like."""
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode()
    except UnicodeDecodeError:
        raise UsageError(f"{text} has a backslash with nothing sensible behind it.") from None


def _or(data: bytes | None, null: bytes) -> bytes:
    return null if data is None else bytes(data)


def formatted(text: str, null: bytes) -> Write:
    tokens: dict[str, Write] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
        "k": lambda record: _or(record.key, null),
        "s": lambda record: _or(record.value, null),
        "K": lambda record: b"%d" % (-1 if record.key is None else len(record.key)),
        "S": lambda record: b"%d" % (-1 if record.value is None else len(record.value)),
        "h": lambda record: b",".join(name.encode() + b"=" + _or(value, null) for name, value in record.headers),
        "%": lambda record: b"%",
    }
    parts: list[Write] = []
    for literal, token in _pieces(text):
        if literal:
            parts.append(_constant(unescape(literal)))
        if token:
            if token not in tokens:
                raise UsageError(f"%{token} is not known in --format; there are %{' %'.join(tokens)}.")
            parts.append(tokens[token])
    return lambda record: b"".join([part(record) for part in parts])


def _constant(data: bytes) -> Write:
    return lambda record: data


def _pieces(text: str) -> list[tuple[str, str]]:
    """Literal text and the token behind it."""
    found: list[tuple[str, str]] = []
    while text:
        literal, sign, rest = text.partition("%")
        if sign and not rest:
            raise UsageError("A % at the end of --format stands for nothing; %% is a percent sign.")
        found.append((literal, rest[:1]))
        text = rest[1:]
    return found
