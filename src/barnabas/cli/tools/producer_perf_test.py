"""`kafka-producer-perf-test`: how fast records can be produced, and how long each took."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER
from barnabas.cli.deprecations import either, older
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.perf_stats import SendStats, Throttle

if TYPE_CHECKING:
    from barnabas.client.producer import Producer
    from barnabas.client.settings import ClientSettings

POOL_BYTES = 4 * 1024 * 1024
CHUNK_RECORDS = 500
CHUNK_BYTES = 128 * 1024
TRANSACTION_DURATION_MS = 3000

PARSER = Parser(
    name="producer-perf-test",
    summary="Measures how fast records can be produced.",
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="Where to.", completes="topic"),
        option("--num-records", takes="count", kind=int, help="How many."),
        option("--record-size", takes="bytes", kind=int, help="Of each record; letters at random."),
        option("--payload-file", takes="file", help="Values are chosen from this file's.", completes="file"),
        option("--payload-delimiter", takes="text", default="\\n", help="What stands between values in the file."),
        option("--payload-monotonic", help="Values are 0, 1, 2 and so on."),
        option("--throughput", takes="records/s", kind=float, help="At most; -1 for as fast as possible."),
        option("--command-property", takes="key=value", repeated=True, many=True, help="Properties of the producer."),
        option(
            "--producer-props",
            takes="key=value",
            repeated=True,
            many=True,
            hidden=True,
            help="Of older versions: --command-property is meant.",
        ),
        option("--command-config", takes="file", help="A file with the producer's properties.", completes="file"),
        older("producer.config", "command-config", "file", completes="file"),
        option("--print-metrics", help="Print what the producer counted."),
        option("--transactional-id", takes="id", help="Write in transactions of this id."),
        option("--transaction-duration-ms", takes="ms", kind=int, help="Commit after so long. (default: 3000)"),
        option("--warmup-records", takes="count", kind=int, default=0, help="How many do not count as steady state."),
        option("--reporting-interval", takes="ms", kind=int, default=5000, help="Between lines of progress."),
    ),
)


def run(parsed: Parsed) -> int:
    for name in ("topic", "num-records", "throughput"):
        if name not in parsed:
            raise UsageError(f"argument --{name} is required")
    sources = [name for name in ("record-size", "payload-file", "payload-monotonic") if name in parsed]
    if len(sources) != 1:
        raise UsageError("one of the arguments --record-size --payload-file --payload-monotonic is required")
    count = parsed.number("num-records") or 0
    if count <= 0:
        raise UsageError("--num-records should be greater than zero.")
    warmup = parsed.number("warmup-records") or 0
    if warmup >= count:
        raise UsageError(
            "The value for --warmup-records must be strictly fewer than the number of records in the test."
        )
    values = _values(parsed)
    settings = _settings(parsed)
    if _transactional_id(parsed, settings) is not None:
        return _run_in_transactions(parsed, settings, values)
    from barnabas.cli.records.producing import close_hastily
    from barnabas.client.producer import Producer

    stats = SendStats(parsed.number("reporting-interval") or 5000)
    producer = Producer(settings)
    try:
        return _measure(producer, parsed, settings, values, stats)
    except KeyboardInterrupt:
        close_hastily(producer)
        print(stats.total())
        return 130
    finally:
        producer.close()


def _measure(
    producer: Producer, parsed: Parsed, settings: ClientSettings, values: Iterator[list[bytes]], stats: SendStats
) -> int:
    count, warmup = parsed.number("num-records") or 0, parsed.number("warmup-records") or 0
    steady: SendStats | None = None
    producer.partitions_for(parsed.text("topic") or "")
    if warmup:
        print(f"Warmup first {warmup} records. Steady state results will print after the complete test summary.")
        _send(producer, parsed, values, stats, warmup)
        steady = SendStats(1 << 40, label="steady state records sent")
        _send(producer, parsed, values, stats, count - warmup, steady)
    else:
        _send(producer, parsed, values, stats, count)
    producer.flush()
    print(stats.total())
    if steady is not None:
        print(steady.total())
    if "print-metrics" in parsed:
        _print_metrics(settings, stats)
    return _verdict(stats)


def _verdict(stats: SendStats) -> int:
    if stats.failed:
        print(f"{stats.failed} records were not sent: {stats.first_error}", file=sys.stderr)
        return 1
    return 0


def _settings(parsed: Parsed) -> ClientSettings:
    from barnabas.cli.connect import key_values
    from barnabas.client.settings import ClientSettings, read_properties

    properties: dict[str, str] = {}
    for path in either(parsed, "command-config", "producer.config"):
        properties |= read_properties(path)
    pairs = either(parsed, "command-property", "producer-props")
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(f"Invalid property: {pair}")
    properties |= key_values(pairs)
    if "bootstrap-server" in parsed:
        properties["bootstrap.servers"] = parsed.text("bootstrap-server") or ""
    if not properties.get("bootstrap.servers"):
        raise UsageError("At least one of --bootstrap-server, --command-property, --producer-props, --producer.config "
                         "or --command-config must be specified.")  # fmt: skip
    properties.setdefault("client.id", "perf-producer-client")
    return ClientSettings.from_properties(properties, client_id=properties["client.id"])


def _values(parsed: Parsed) -> Iterator[list[bytes]]:
    """Values for ever, some at a time: no more than there is room for in a few batches."""
    if "record-size" in parsed:
        size = parsed.number("record-size") or 0
        if size <= 0:
            raise UsageError("--record-size should be greater than zero.")
        return _random_values(size)
    if "payload-file" in parsed:
        return _file_values(parsed.text("payload-file") or "", parsed.text("payload-delimiter") or "\\n")
    return _numbers()


def _random_values(size: int) -> Iterator[list[bytes]]:
    """Pieces of a pool of letters: making each letter anew would measure the making."""
    letters = bytes(65 + byte % 26 for byte in range(256))
    pool = os.urandom(max(POOL_BYTES, 4 * size)).translate(letters)
    some = max(1, min(CHUNK_RECORDS, CHUNK_BYTES // size))
    last = len(pool) - size
    step = size + 7
    at = 0
    while True:
        if at + some * step > last:
            at = random.randrange(size)
        end = at + some * step
        yield [pool[begin : begin + size] for begin in range(at, end, step)] if end <= last else [pool[:size]]
        at = end


def _file_values(path: str, delimiter: str) -> Iterator[list[bytes]]:
    from barnabas.cli.tools.consume import unescape

    with open(path, "rb") as file:
        content = file.read()
    values = [value for value in content.split(unescape(delimiter)) if value]
    if not values:
        raise ToolFailed(f"{path} holds no values.")
    print(f"Reading payloads from: {os.path.abspath(path)}")  # noqa: PTH100
    print(f"Number of records read: {len(values)}")

    def chosen() -> Iterator[list[bytes]]:
        while True:
            yield random.choices(values, k=CHUNK_RECORDS)

    return chosen()


def _numbers() -> Iterator[list[bytes]]:
    at = 0
    while True:
        yield [b"%d" % number for number in range(at, at + CHUNK_RECORDS)]
        at += CHUNK_RECORDS


def _send(
    producer: Producer,
    parsed: Parsed,
    values: Iterator[list[bytes]],
    stats: SendStats,
    count: int,
    steady: SendStats | None = None,
) -> None:
    topic = parsed.text("topic") or ""
    rate = float(parsed.text("throughput") or -1)
    throttle = Throttle(rate)
    # With a rate, no more at once than are due within a hundredth of a second.
    at_most = CHUNK_RECORDS if rate <= 0 else max(1, min(CHUNK_RECORDS, int(rate / 100)))
    sent = 0
    for some in values:
        for begin in range(0, len(some), at_most):
            chunk = some[begin : min(begin + at_most, begin + count - sent)]
            size = sum(map(len, chunk)) / len(chunk)

            def told(number: int, at: float, error: Exception | None, size: float = size) -> None:
                stats.record(number, at, size, error)
                if steady is not None:
                    steady.record(number, at, size, error)

            producer.send_many(topic, chunk, callback=told)
            sent += len(chunk)
            if sent >= count:
                return
            throttle.wait(sent)


def _transactional_id(parsed: Parsed, settings: ClientSettings) -> str | None:
    chosen = parsed.text("transactional-id") or settings.properties.get("transactional.id")
    if chosen is None and "transaction-duration-ms" in parsed:
        import uuid

        return f"performance-producer-{uuid.uuid4()}"
    return chosen


def _run_in_transactions(parsed: Parsed, settings: ClientSettings, values: Iterator[list[bytes]]) -> int:
    from barnabas.client.cluster import Cluster
    from barnabas.client.transactions import TransactionalProducer, init_transactions

    transactional_id = _transactional_id(parsed, settings) or ""
    duration_ms = parsed.number("transaction-duration-ms")
    duration_ms = TRANSACTION_DURATION_MS if duration_ms is None else duration_ms
    if duration_ms <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero.")
    timeout_ms = int(settings.properties.get("transaction.timeout.ms", 60_000))
    stats = SendStats(parsed.number("reporting-interval") or 5000)
    topic, count = parsed.text("topic") or "", parsed.number("num-records") or 0
    throttle = Throttle(float(parsed.text("throughput") or -1))
    with Cluster(settings) as cluster:
        prepared = init_transactions(cluster, transactional_id, timeout_ms=timeout_ms)
    sent = 0
    with TransactionalProducer(settings, prepared) as producer:
        began_at = time.monotonic()
        for value in (value for some in values for value in some):
            size, at = len(value), time.monotonic()

            def told(metadata: object, error: Exception | None, at: float = at, size: int = size) -> None:
                stats.record(1, at, size, error)

            producer.send(topic, value, callback=told)
            sent += 1
            if sent == count:
                break
            if (time.monotonic() - began_at) * 1000 >= duration_ms:
                producer.end(commit=True)
                began_at = time.monotonic()
            throttle.wait(sent)
        producer.end(commit=True)
    print(stats.total())
    if "print-metrics" in parsed:
        _print_metrics(settings, stats)
    return _verdict(stats)


def _print_metrics(settings: ClientSettings, stats: SendStats) -> None:
    client = settings.client_id
    elapsed_s = max(time.monotonic() - stats.start, 0.001)
    metrics = {
        f"producer-metrics:record-send-rate:{{client-id={client}}}": stats.count / elapsed_s,
        f"producer-metrics:record-send-total:{{client-id={client}}}": float(stats.count),
        f"producer-metrics:record-error-total:{{client-id={client}}}": float(stats.failed),
    }
    width = max(map(len, metrics))
    print(f"\n{'Metric Name':<{width}} Value")
    for name, value in metrics.items():
        print(f"{name:<{width}} : {value:.3f}")
