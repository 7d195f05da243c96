"""`kafka-console-producer`: each line of stdin is a record.

Reads only as fast as the cluster takes it. Unless limits are given, a record is tried for as long as it takes: a broker
that goes away and comes back costs neither records nor their order. What Kafka's tool logs about that is left out. Only
where too few replicas are in sync a record is given up after some seconds (Kafka's tool gives up after the third try).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER, ZOOKEEPER, bootstrap, key_values
from barnabas.cli.deprecations import client_properties, either, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option

if TYPE_CHECKING:
    from barnabas.cli.records.line_reader import LineReader
    from barnabas.cli.records.producing import Failures
    from barnabas.client.producer import Producer, RecordMetadata
    from barnabas.client.settings import ClientSettings

INT32_MAX = 2**31 - 1
PROMPT = b">"
REFUSALS_MAX = 50  # five seconds with the pause that is the default: a broker that is just back is in sync by then

# Options that are properties of the producer, and what holds if neither is given.
AS_PROPERTIES = {
    "request-required-acks": ("acks", "-1"),
    "request-timeout-ms": ("request.timeout.ms", None),
    "message-send-max-retries": ("retries", None),
    "retry-backoff-ms": ("retry.backoff.ms", "100"),
    "socket-buffer-size": ("send.buffer.bytes", "102400"),
    "max-memory-bytes": ("buffer.memory", "33554432"),
    "batch-size": ("batch.size", "16384"),
    "max-partition-memory-bytes": ("batch.size", None),
    "metadata-expiry-ms": ("metadata.max.age.ms", "300000"),
    "max-block-ms": ("max.block.ms", "60000"),
    "timeout": ("linger.ms", "1000"),
}

PARSER = Parser(
    name="console-producer",
    summary="Reads lines from stdin and sends each of them as a record.",
    options=(
        BOOTSTRAP_SERVER,
        ZOOKEEPER,
        option("--topic", takes="topic", help="The topic to write to.", completes="topic"),
        option("--sync", help="Wait for each record before the next is sent."),
        option(
            "--compression-codec",
            takes="codec",
            optional=True,
            without_value="gzip",
            help="none, gzip, snappy, lz4 or zstd; gzip if no codec is named.",
        ),
        option("--batch-size", takes="bytes", kind=int, help="Of a batch of one partition. (default: 16384)"),
        option("--timeout", takes="ms", kind=int, help="How long a record may wait for others. (default: 1000)"),
        option("--request-required-acks", takes="acks", help="0, 1 or all. (default: all)"),
        option("--request-timeout-ms", takes="ms", kind=int, help="How long a broker may take to answer."),
        option("--message-send-max-retries", takes="count", kind=int, help="How often a batch is tried again."),
        option("--retry-backoff-ms", takes="ms", kind=int, help="Between tries. (default: 100)"),
        option("--max-block-ms", takes="ms", kind=int, help="How long a topic is waited for. (default: 60000)"),
        option("--max-memory-bytes", takes="bytes", kind=int, help="Of all batches. (default: 33554432)"),
        option("--max-partition-memory-bytes", takes="bytes", kind=int, help="The older name of --batch-size."),
        option("--metadata-expiry-ms", takes="ms", kind=int, help="How long metadata is believed. (default: 300000)"),
        option("--socket-buffer-size", takes="bytes", kind=int, help="Of the socket. (default: 102400)"),
        option(
            "--reader-property",
            takes="key=value",
            repeated=True,
            help="How a line is read: parse.key, key.separator (tab), parse.headers, headers.delimiter (tab), "
            "headers.separator (,), headers.key.separator (:), null.marker, ignore.error.",
        ),
        option("--reader-config", takes="file", help="A file with such properties.", completes="file"),
        option(
            "--line-reader", takes="class", help="LineMessageReader, or Confluent's AvroMessageReader.", hidden=True
        ),
        option("--command-property", takes="key=value", repeated=True, help="A property of the producer."),
        option("--command-config", takes="file", help="A file with the producer's properties.", completes="file"),
        older("property", "reader-property", "key=value", repeated=True),
        older("producer-property", "command-property", "key=value", repeated=True),
        older("producer.config", "command-config", "file", completes="file"),
    ),
)


def run(parsed: Parsed, *, schema_type: str | None = None) -> int:
    """With a type of schema, lines are JSON that is written under a schema."""
    from dataclasses import replace

    from barnabas.cli.client_log import listen
    from barnabas.cli.records.producing import wait_for_topic
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer import Producer
    from barnabas.client.producer_settings import ProducerSettings

    listen()
    parsed.require("topic")
    reader = _reader(parsed, schema_type)
    settings = _settings(parsed)
    chosen = ProducerSettings.from_properties(settings.properties)
    with Cluster(settings) as cluster:
        # Whoever cannot be reached at the start is told at once, a topic that does not come after a while.
        wait_for_topic(cluster, parsed.text("topic") or "", chosen.max_block_ms)
    # From then on a full buffer is waited for: that is a broker which is slow, or away.
    refusals_max = REFUSALS_MAX if chosen.delivery_timeout_ms == INT32_MAX else chosen.refusals_max
    producer = Producer(settings, replace(chosen, max_block_ms=INT32_MAX, refusals_max=refusals_max))
    return _produce(producer, parsed, reader, chosen.max_request_size)


def _reader(parsed: Parsed, schema_type: str | None) -> LineReader:
    from barnabas.cli.records.line_reader import LineReader

    properties = _reader_properties(parsed)
    name = (parsed.text("line-reader") or "LineMessageReader").rpartition(".")[2]
    if schema_type is None and name in ("LineMessageReader", "ConsoleProducer$LineMessageReader"):
        return LineReader(properties)
    from barnabas.cli.records.schema_records import READERS, SchemaLineReader

    if schema_type is None and name not in READERS:
        raise UsageError(f"{name} is a class of Java; there are LineMessageReader and {', '.join(READERS)} here.")
    return SchemaLineReader(parsed.text("topic") or "", schema_type or READERS[name], properties)


def _reader_properties(parsed: Parsed) -> dict[str, str]:
    properties: dict[str, str] = {}
    if path := parsed.text("reader-config"):
        from barnabas.client.settings import read_properties

        properties |= read_properties(path)
    return properties | key_values(either(parsed, "reader-property", "property"))


def _settings(parsed: Parsed) -> ClientSettings:
    from barnabas.client.settings import ClientSettings

    properties = client_properties(
        parsed, files=("command-config", "producer.config"), pairs=("command-property", "producer-property")
    )
    for name, (key, default) in AS_PROPERTIES.items():
        if name in parsed:
            properties[key] = parsed.text(name) or ""
        elif default is not None:
            properties.setdefault(key, default)
    if "compression-codec" in parsed:
        properties["compression.type"] = parsed.text("compression-codec") or ""
    if not {"retries", "delivery.timeout.ms"} & properties.keys():
        properties["delivery.timeout.ms"] = str(INT32_MAX)
    properties.setdefault("client.id", "console-producer")
    return ClientSettings.from_properties(
        properties,
        bootstrap_servers=bootstrap(parsed, missing="Error while validating the bootstrap address"),
        client_id=properties["client.id"],
    )


def _produce(producer: Producer, parsed: Parsed, reader: LineReader, longest: int) -> int:
    from barnabas.cli.records.producing import Failures, feed_to_the_end

    topic = parsed.text("topic") or ""
    failures = Failures(topic)
    feed = _feed_one_by_one if "sync" in parsed else _feed
    return feed_to_the_end(producer, failures, lambda: feed(producer, topic, reader, failures, longest))


def _feed(producer: Producer, topic: str, reader: LineReader, failures: Failures, longest: int) -> None:
    def told(metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is not None:
            failures.add(error)

    def told_of_many(count: int, appended_at: float, error: Exception | None) -> None:
        if error is not None:
            failures.add(error, count)

    for some in _lines(failures, longest):
        if reader.plain and max(map(len, some)) < longest // 2:
            producer.send_many(topic, some, callback=told_of_many)
            continue
        for line in some:
            key, value, headers = reader.read(line)
            with _telling(failures):
                producer.send(topic, value, key, headers, callback=told)


def _feed_one_by_one(producer: Producer, topic: str, reader: LineReader, failures: Failures, longest: int) -> None:
    for some in _lines(failures, longest):
        for line in some:
            key, value, headers = reader.read(line)
            with _telling(failures):
                producer.send(topic, value, key, headers).result()


@contextmanager
def _telling(failures: Failures) -> Iterator[None]:
    """A record that is refused is told; the next may fare better."""
    from barnabas.client.errors import Refused

    try:
        yield
    except Refused as refusal:
        failures.add(refusal)


def _lines(failures: Failures, longest: int) -> Iterator[list[bytes]]:
    """What stands on stdin, with a prompt before it on a terminal."""
    from barnabas.cli.records.producing import lines

    def too_long(number: int) -> None:
        print(f"Line {number} is longer than max.request.size, {longest} bytes, and left out.", file=sys.stderr)
        failures.count += 1

    prompts = sys.stdin.isatty()
    _prompt(prompts)
    for some in lines(sys.stdin.buffer, longest, too_long):
        yield some
        _prompt(prompts)


def _prompt(prompts: bool) -> None:
    if prompts:
        sys.stdout.buffer.write(PROMPT)
        sys.stdout.buffer.flush()
