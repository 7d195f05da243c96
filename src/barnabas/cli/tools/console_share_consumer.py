"""`kafka-console-share-consumer`: prints the records of a topic as a member of a share group, and says what became of
each: accepted, or with options released or rejected."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER, bootstrap
from barnabas.cli.deprecations import client_properties, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.tools.console_consumer import Interruption, Printing

if TYPE_CHECKING:
    from barnabas.client.records import ConsumerRecord
    from barnabas.client.share_consumer import ShareConsumer, ShareRecord

DEFAULT_GROUP = "console-share-consumer"
POLL_MS = 500

PARSER = Parser(
    name="console-share-consumer",
    summary="Prints the records of a topic, taken one by one as a member of a share group.",
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="The topic to read.", completes="topic"),
        option("--group", takes="group", help=f"The share group; {DEFAULT_GROUP} if it is not given."),
        option("--max-messages", takes="count", kind=int, help="End after so many records."),
        option("--timeout-ms", takes="ms", kind=int, help="End when there is no record for so long."),
        option("--reject", help="Reject records: nobody gets them again."),
        option("--release", help="Release records: they are given out again."),
        option("--reject-message-on-error", help="Reject what cannot be printed, instead of ending."),
        option("--formatter", takes="class", help="How records are printed; DefaultMessageFormatter if not given."),
        option("--formatter-property", takes="key=value", repeated=True, help="A property of the formatter."),
        option("--formatter-config", takes="file", help="A file with such properties.", completes="file"),
        option("--key-deserializer", takes="class", help="How keys are read: LongDeserializer and others."),
        option("--value-deserializer", takes="class", help="How values are read."),
        option("--command-property", takes="key=value", repeated=True, help="A property of the consumer."),
        option("--command-config", takes="file", help="A file with the consumer's properties.", completes="file"),
        older("property", "formatter-property", "key=value", repeated=True),
        older("consumer-property", "command-property", "key=value", repeated=True),
        older("consumer-config", "command-config", "file", completes="file"),
        option("--enable-systest-events", help="Tell of the end on stdout, for tests."),
    ),
)


def run(parsed: Parsed) -> int:
    from barnabas.cli.client_log import listen
    from barnabas.cli.records.formatters import formatter
    from barnabas.cli.tools.console_consumer import formatter_properties
    from barnabas.client.settings import ClientSettings
    from barnabas.client.share_consumer import ShareConsumer

    topic = parsed.text("topic")
    if topic is None:
        raise UsageError("Missing required option(s) [topic]")
    if "reject" in parsed and "release" in parsed:
        raise UsageError("At most one of --reject and --release may be specified.")
    listen()
    address = bootstrap(parsed)
    properties = client_properties(
        parsed, files=("command-config", "consumer-config"), pairs=("command-property", "consumer-property")
    )
    write = formatter(parsed.text("formatter"), formatter_properties(parsed))
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=address, client_id=properties.get("client.id", "console-share-consumer")
    )
    group = parsed.text("group") or properties.get("group.id") or DEFAULT_GROUP
    skips_errors = "reject-message-on-error" in parsed
    printing = Printing(write, sys.stdout.buffer, parsed.number("max-messages"), skips_errors)
    interruption = Interruption()
    try:
        with ShareConsumer(settings, group, [topic]) as consumer:
            code = _consume(consumer, printing, interruption, parsed)
    finally:
        interruption.end()
        printing.tell()
    if "enable-systest-events" in parsed:
        print("shutdown_complete")
    return code


def _consume(consumer: ShareConsumer, printing: Printing, interruption: Interruption, parsed: Parsed) -> int:
    timeout_ms, last_at = parsed.number("timeout-ms"), time.monotonic()
    while printing.wants_more:
        if interruption.code:
            return interruption.code
        records = consumer.poll(POLL_MS if timeout_ms is None else max(min(POLL_MS, timeout_ms), 1))
        for record in records:
            last_at = time.monotonic()
            if not printing.wants_more:
                consumer.nack(record)
                continue
            printing.print([_plain(record)])
            _answer(consumer, record, parsed)
        if not records and timeout_ms is not None and (time.monotonic() - last_at) * 1000 >= timeout_ms:
            return 0
    return 0


def _plain(record: ShareRecord) -> ConsumerRecord:
    from barnabas.client.records import ConsumerRecord

    return ConsumerRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        0,
        record.key,
        record.value,
        record.headers,
    )


def _answer(consumer: ShareConsumer, record: ShareRecord, parsed: Parsed) -> None:
    if "reject" in parsed:
        consumer.reject(record)
    elif "release" in parsed:
        consumer.nack(record)
    else:
        consumer.ack(record)
