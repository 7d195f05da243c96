"""`kafka-console-consumer`: the records of topics on stdout.

Reads as a member of a group: the one that is named, or one of its own (`console-consumer-12345`) that it leaves and
deletes at the end. With --partition it reads that partition and is no member. How many records were printed is told
on stderr, however it ends.
"""

from __future__ import annotations

import io
import os
import random
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import BOOTSTRAP_SERVER, ZOOKEEPER, bootstrap, key_values
from barnabas.cli.deprecations import client_properties, either, older
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.deserializers import SerializationError

if TYPE_CHECKING:
    from barnabas.cli.records.formatters import Formatter
    from barnabas.client.cluster import Cluster
    from barnabas.client.consumer import AssignedConsumer, ConsumerRecord, GroupConsumer
    from barnabas.client.settings import ClientSettings

EARLIEST, LATEST = -2, -1
POLL_MS = 200
POLL_RECORDS = "5000"

PARSER = Parser(
    name="console-consumer",
    summary="Prints the records of topics.",
    options=(
        BOOTSTRAP_SERVER,
        ZOOKEEPER,
        option("--topic", takes="topic", help="What to read.", completes="topic"),
        option("--include", "--whitelist", takes="regex", help="Read every topic whose name matches."),
        option("--partition", takes="partition", kind=int, help="Only this partition, from its end or --offset on."),
        option("--offset", takes="offset", help="An offset, earliest or latest. (default: latest)"),
        option("--from-beginning", help="Begin at the start of the log, where the group has no offset yet."),
        option("--max-messages", takes="count", kind=int, help="End after so many records."),
        option("--timeout-ms", takes="ms", kind=int, help="End if no record comes for so long."),
        option("--group", takes="group", help="The group to be a member of.", completes="group"),
        option(
            "--isolation-level",
            takes="level",
            help="read_uncommitted, or read_committed to leave out open and aborted transactions.",
        ),
        option(
            "--formatter",
            takes="class",
            help="DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter, OffsetsMessageFormatter, "
            "GroupMetadataMessageFormatter or TransactionLogMessageFormatter.",
        ),
        option(
            "--formatter-property",
            takes="key=value",
            repeated=True,
            help="How records are printed: print.timestamp, print.key, print.offset, print.epoch, print.partition, "
            "print.headers, print.value, key.separator, line.separator, headers.separator, null.literal, "
            "key.deserializer, value.deserializer, headers.deserializer.",
        ),
        option("--formatter-config", takes="file", help="A file with such properties.", completes="file"),
        option("--key-deserializer", takes="class", help="How keys are read: LongDeserializer and others."),
        option("--value-deserializer", takes="class", help="How values are read."),
        option("--skip-message-on-error", help="Leave out what cannot be printed, instead of ending."),
        option("--enable-systest-events", help="Tell of the end on stdout, for tests."),
        option("--command-property", takes="key=value", repeated=True, help="A property of the consumer."),
        option("--command-config", takes="file", help="A file with the consumer's properties.", completes="file"),
        older("property", "formatter-property", "key=value", repeated=True),
        older("consumer-property", "command-property", "key=value", repeated=True),
        older("consumer.config", "command-config", "file", completes="file"),
        option("--new-consumer", help="Of older versions: there is no other.", hidden=True),
    ),
)


def run(parsed: Parsed, *, formatter_class: str | None = None) -> int:
    from barnabas.cli.client_log import listen
    from barnabas.cli.records.formatters import formatter
    from barnabas.client.settings import ClientSettings

    listen()
    _check(parsed)
    address = bootstrap(parsed)
    properties = client_properties(
        parsed, files=("command-config", "consumer.config"), pairs=("command-property", "consumer-property")
    )
    own_group = _complete(parsed, properties)
    write = formatter(parsed.text("formatter") or formatter_class, formatter_properties(parsed))
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=address, client_id=properties.get("client.id", "console-consumer")
    )
    _warn_of_what_is_missing(settings, parsed)
    printing = Printing(write, sys.stdout.buffer, parsed.number("max-messages"), "skip-message-on-error" in parsed)
    interruption = Interruption()
    try:
        consumer = _consumer(settings, parsed)
        try:
            code = _consume(consumer, printing, interruption, parsed.number("timeout-ms"))
        finally:
            _close(consumer, settings, own_group)
    finally:
        interruption.end()
        printing.tell()
    if "enable-systest-events" in parsed:
        print("shutdown_complete")
    return code


def _check(parsed: Parsed) -> None:
    if ("topic" in parsed) == ("include" in parsed):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if "partition" in parsed and "topic" not in parsed:
        raise UsageError("The topic is required when partition is specified.")
    if "offset" in parsed and "partition" not in parsed:
        raise UsageError("The partition is required when offset is specified.")
    if "offset" in parsed and "from-beginning" in parsed:
        raise UsageError("Options from-beginning and offset cannot be specified together.")
    offset = parsed.text("offset")
    if offset is not None and offset.lower() not in ("earliest", "latest") and not offset.isdecimal():
        raise UsageError(
            f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )


def _complete(parsed: Parsed, properties: dict[str, str]) -> str | None:
    """Properties that follow from options. Returns the group if it is nobody's but ours."""
    reset = properties.get("auto.offset.reset")
    if "from-beginning" in parsed and reset not in (None, "earliest"):
        raise ToolFailed(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    properties.setdefault("auto.offset.reset", "earliest" if "from-beginning" in parsed else "latest")
    if "isolation-level" in parsed:
        properties["isolation.level"] = parsed.text("isolation-level") or ""
    properties.setdefault("max.poll.records", POLL_RECORDS)
    groups = list(dict.fromkeys([*parsed.texts("group"), *filter(None, [properties.get("group.id")])]))
    if len(groups) > 1:
        named = ", ".join(f"'{group}'" for group in groups)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {named}"
        )
    if groups:
        properties["group.id"] = groups[0]
        return None
    properties["group.id"] = f"console-consumer-{random.randrange(100_000)}"
    properties.setdefault("enable.auto.commit", "false")
    return properties["group.id"] if "partition" not in parsed else None


def formatter_properties(parsed: Parsed) -> dict[str, str]:
    properties: dict[str, str] = {}
    if path := parsed.text("formatter-config"):
        from barnabas.client.settings import read_properties

        properties |= read_properties(path)
    properties |= key_values(either(parsed, "formatter-property", "property"))
    for part in ("key", "value"):
        if f"{part}-deserializer" in parsed:
            properties[f"{part}.deserializer"] = parsed.text(f"{part}-deserializer") or ""
    return properties


def _warn_of_what_is_missing(settings: ClientSettings, parsed: Parsed) -> None:
    """The topic may come; who mistyped its name should not have to wait to learn that."""
    from barnabas.cli.records.reading import no_partition
    from barnabas.client.cluster import Cluster

    topic = parsed.text("topic")
    if topic is None:
        return
    with Cluster(settings) as cluster:
        found = cluster.metadata([topic]).topics.get(topic)
        if found is not None and not found.error:
            if (wanted := parsed.number("partition")) is not None and wanted not in found.partitions:
                raise no_partition(topic, wanted, len(found.partitions))
            _hint_at_deleted_records(cluster, parsed, topic)
            return
        from difflib import get_close_matches

        near = get_close_matches(topic, list(cluster.metadata().topics), n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    print(f"[{at},000] WARN Topic {topic} does not exist; waiting for it.{hint}", file=sys.stderr)


def _hint_at_deleted_records(cluster: Cluster, parsed: Parsed, topic: str) -> None:
    if "from-beginning" not in parsed and (parsed.text("offset") or "").lower() != "earliest":
        return
    from barnabas.cli.records.reading import later_starts, partitions_of, start_offsets
    from barnabas.client.errors import ClientError

    try:
        partitions = partitions_of(cluster, [topic], [int(text) for text in parsed.texts("partition")])
        hint = later_starts(start_offsets(cluster, partitions, "beginning", 0))
    except (ClientError, ToolFailed):
        return  # a hint is worth no error
    if hint:
        print(hint, file=sys.stderr)


def _consumer(settings: ClientSettings, parsed: Parsed) -> GroupConsumer | AssignedConsumer:
    from barnabas.client.consumer import AssignedConsumer, GroupConsumer

    if "partition" not in parsed:
        topic = parsed.text("topic")
        topics = [] if topic is None else [topic]
        return GroupConsumer(settings, topics=topics, pattern=parsed.text("include"))
    consumer = AssignedConsumer(settings)
    text = (parsed.text("offset") or ("earliest" if "from-beginning" in parsed else "latest")).lower()
    offset = {"earliest": EARLIEST, "latest": LATEST}.get(text)
    place = (parsed.text("topic") or "", parsed.number("partition") or 0)
    consumer.assign({place: int(text) if offset is None else offset})
    return consumer


def _consume(
    consumer: GroupConsumer | AssignedConsumer, printing: Printing, interruption: Interruption, timeout_ms: int | None
) -> int:
    last_at = time.monotonic()
    while printing.wants_more:
        if interruption.code:
            return interruption.code
        records = consumer.poll(POLL_MS if timeout_ms is None else max(min(POLL_MS, timeout_ms), 1))
        if records:
            last_at = time.monotonic()
            try:
                left = printing.print(records)
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                print("Unable to write to standard out, closing consumer.", file=sys.stderr)
                return 0
            for record in left:
                consumer.seek(record.topic, record.partition, record.offset)
        elif timeout_ms is not None and (time.monotonic() - last_at) * 1000 >= timeout_ms:
            return 0
    return 0


def _close(consumer: GroupConsumer | AssignedConsumer, settings: ClientSettings, own_group: str | None) -> None:
    from barnabas.client.admin.groups import delete_group
    from barnabas.client.cluster import Cluster
    from barnabas.client.errors import ClientError

    consumer.close()
    if own_group is None:
        return
    try:
        with Cluster(settings) as cluster:
            delete_group(cluster, own_group)
    except ClientError:
        pass  # the coordinator forgets it anyway, only later


class Printing:
    """Writes records, so many at most, and counts them."""

    def __init__(self, write: Formatter, out: Any, at_most: int | None, skips_errors: bool) -> None:
        self.count = 0
        self._write = write
        self._out = out
        self._at_most = None if at_most is None or at_most < 0 else at_most
        self._skips_errors = skips_errors

    @property
    def wants_more(self) -> bool:
        return self._at_most is None or self.count < self._at_most

    def print(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Returns the first record of each partition that was not wanted any more."""
        wanted = len(records) if self._at_most is None else min(self._at_most - self.count, len(records))
        printed = io.BytesIO()  # one write for all of them, whatever stdout is
        try:
            self._format(records[:wanted], printed)
        finally:
            self._out.write(printed.getvalue())
            self._out.flush()
        left: dict[tuple[str, int], ConsumerRecord] = {}
        for record in records[wanted:]:
            left.setdefault((record.topic, record.partition), record)
        return list(left.values())

    def _format(self, records: list[ConsumerRecord], printed: io.BytesIO) -> None:
        write = self._write
        for record in records:
            self.count += 1
            try:
                write(record, printed)
            except SerializationError as error:
                where = f"{record.topic}-{record.partition}@{record.offset}"
                if not self._skips_errors:
                    raise ToolFailed(f"The record {where} cannot be printed: {error}") from None
                print(f"The record {where} cannot be printed and is left out: {error}", file=sys.stderr)

    def tell(self) -> None:
        print(f"Processed a total of {self.count} messages", file=sys.stderr)


class Interruption:
    """Ctrl-C and SIGTERM end the reading between two polls; a second one ends at once."""

    def __init__(self) -> None:
        self.code = 0
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._heed)

    def _heed(self, number: int, frame: object) -> None:
        self.code = 128 + number
        self.end()

    def end(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
