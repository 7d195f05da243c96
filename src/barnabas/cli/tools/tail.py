"""`barnabas tail`: a topic live, for people: time, place, key, headers and value of each record, in colours."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, settings, wants_json
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, Positional, option
from barnabas.cli.terminal import is_colourful, paint, printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.records import ConsumerRecord

    Filter = Callable[[ConsumerRecord], bool]

BACKLOG_MAX = 100_000  # records

PARSER = Parser(
    name="tail",
    summary="Shows the records of topics as they come: time, partition and offset, key, headers, value.",
    beyond_kafka=True,
    help_exit=0,
    positionals=(Positional(name="topic", help="What to watch; several may be given.", many=True, completes="topic"),),
    options=(
        *CONNECTION,
        OUTPUT,
        option("--since", "-s", takes="time", help="Begin so long ago (5m, 2h, 1d) or at a date."),
        option("--lines", "-n", takes="count", kind=int, help="Begin with the last so many records."),
        option("--partition", "-p", takes="partition", kind=int, repeated=True, help="Only these partitions."),
        option("--key", "-k", takes="regex", help="Only records whose key has this in it."),
        option("--value", "-V", takes="regex", help="Only records whose value has this in it."),
        option(
            "--header",
            "-H",
            takes="name[=regex]",
            repeated=True,
            help="Only records with this header, and this in it; all of several must be there.",
        ),
        option(
            "--decode",
            "-d",
            takes="url",
            optional=True,
            without_value="http://localhost:8081",
            help="Show keys and values that have a schema as JSON; the registry is at http://localhost:8081 if no "
            "address is given.",
        ),
        option("--exit", "-e", "--no-follow", help="End where the topics ended at the start."),
        option("--count", "-c", takes="count", kind=int, help="End after so many records."),
        option(
            "--isolation-level",
            takes="level",
            choices=("read_uncommitted", "read_committed"),
            default="read_uncommitted",
            help="Whether open and aborted transactions are shown.",
        ),
    ),
)


def run(parsed: Parsed) -> int:
    parsed.refuse("since", "lines")
    filters = _filters(parsed)
    try:
        _watch(parsed, filters)
    except KeyboardInterrupt:
        return 0
    return 0


def _watch(parsed: Parsed, filters: list[Filter]) -> None:
    from barnabas.cli.records.reading import end_offsets, partitions_of, read, start_offsets
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher, FetchSettings

    isolation = parsed.text("isolation-level") or ""
    show = _shown(parsed)
    decode = _decoding(parsed)
    left = parsed.number("count")
    with Cluster(settings(parsed, client_id="barnabas-tail", missing=None)) as cluster:
        partitions = partitions_of(cluster, parsed.rest, [int(text) for text in parsed.texts("partition")])
        positions = start_offsets(cluster, partitions, _begin(parsed), round(time.time() * 1000))
        ends = end_offsets(cluster, partitions, isolation)
        backlog = Backlog(sum(max(ends[each] - positions[each], 0) for each in ends), parsed.number("lines"))
        with Fetcher(cluster, FetchSettings(isolation=isolation)) as fetcher:
            for records in read(fetcher, positions, until=ends if "exit" in parsed else None):
                readable = records if decode is None else map(decode, records)
                chosen = [each for each in readable if all(test(each) for test in filters)]
                if backlog.waits:
                    reached = all(fetcher.positions[each] >= end for each, end in ends.items())
                    chosen = backlog.add(chosen, reached)
                for record in chosen if left is None else chosen[:left]:
                    print(show(record))
                sys.stdout.flush()
                left = None if left is None else left - len(chosen)
                if left is not None and left <= 0:
                    return


def _decoding(parsed: Parsed) -> Callable[[ConsumerRecord], ConsumerRecord] | None:
    if "decode" not in parsed:
        return None
    from barnabas.cli.records.schema_records import decoding

    return decoding(parsed.text("decode") or "")


class Backlog:
    """What is there already is shown in the order of time, unless it is too much to keep; what comes, as it comes."""

    def __init__(self, size: int, lines: int | None) -> None:
        self.waits = lines is not None or 0 < size <= BACKLOG_MAX
        self._lines = lines
        self._kept: list[ConsumerRecord] = []

    def add(self, records: list[ConsumerRecord], complete: bool) -> list[ConsumerRecord]:
        self._kept += records
        if not complete:
            return []
        self.waits = False
        found = sorted(self._kept, key=lambda record: record.timestamp)
        self._kept = []
        return found if self._lines is None else found[max(len(found) - self._lines, 0) :]


def _begin(parsed: Parsed) -> str:
    if "since" in parsed:
        return f"@{parsed.text('since')}"
    count = parsed.number("lines")
    return "end" if not count else f"-{count}"


def _filters(parsed: Parsed) -> list[Filter]:
    filters: list[Filter] = []
    if "key" in parsed:
        key = _pattern(parsed.text("key") or "")
        filters.append(lambda record: record.key is not None and bool(key.search(record.key)))
    if "value" in parsed:
        value = _pattern(parsed.text("value") or "")
        filters.append(lambda record: record.value is not None and bool(value.search(record.value)))
    filters += [_header_filter(text) for text in parsed.texts("header")]
    return filters


def _header_filter(text: str) -> Filter:
    name, given, wanted = text.partition("=")
    pattern = _pattern(wanted)

    def test(record: ConsumerRecord) -> bool:
        return any(
            key == name and (not given or (value is not None and bool(pattern.search(value))))
            for key, value in record.headers
        )

    return test


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise UsageError(f"{text} is not a regular expression: {error}.") from None


def _shown(parsed: Parsed) -> Callable[[ConsumerRecord], str]:
    if wants_json(parsed):
        from barnabas.cli.records.envelope import record_line

        return record_line
    colourful = is_colourful(sys.stdout)
    several = len(parsed.rest) > 1
    return lambda record: pretty(record, colourful=colourful, with_topic=several)


def pretty(record: ConsumerRecord, *, colourful: bool, with_topic: bool) -> str:
    at = shown_time(record.timestamp)
    place = f"{record.topic}-{record.partition}" if with_topic else str(record.partition)
    parts = [paint(at, "dim", colourful), paint(f"{place}@{record.offset}", "blue", colourful)]
    if record.headers:
        headers = ", ".join(f"{name}={_text(value)}" for name, value in record.headers)
        parts.append(paint(f"[{headers}]", "magenta", colourful))
    if record.key is not None:
        parts.append(paint(_text(record.key), "cyan", colourful))
    value = paint("(tombstone)", "red", colourful) if record.value is None else _text(record.value)
    return "  ".join([*parts, value])


def shown_time(timestamp_ms: int) -> str:
    """With the date where it is another day than today."""
    at = time.localtime(timestamp_ms / 1000)
    today = time.strftime("%F", at) == time.strftime("%F")
    return time.strftime("%T" if today else "%F %T", at) + f".{timestamp_ms % 1000:03}"


def _text(data: bytes | None) -> str:
    return "null" if data is None else printable(bytes(data))
