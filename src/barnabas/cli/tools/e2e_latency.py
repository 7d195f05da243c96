"""`kafka-e2e-latency`: the time from a producer to a consumer, one record after another."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.perf_stats import percentile

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher

TIMEOUT_MS = 60_000
PROGRESS_RECORDS = 1000
POSITIONAL = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")

PARSER = Parser(
    name="e2e-latency",
    summary="Measures the time from a producer to a consumer: sends a record, waits for it, and sends the next.",
    options=(
        BOOTSTRAP_SERVER,
        option(
            "--topic", takes="topic", help="Where to; made with one partition if it is not there.", completes="topic"
        ),
        option("--num-records", takes="count", kind=int, help="How many."),
        option("--producer-acks", takes="acks", help="1 or all."),
        option("--record-size", takes="bytes", kind=int, help="Of each value."),
        option("--record-key-size", takes="bytes", kind=int, default=0, help="Of each key; no key if it is 0."),
        option("--num-headers", takes="count", kind=int, default=0, help="Of each record."),
        option("--record-header-key-size", takes="bytes", kind=int, default=0, help="Of each header's name."),
        option("--record-header-size", takes="bytes", kind=int, default=0, help="Of each header's value; -1 for null."),
        option("--command-config", takes="file", help="A file with the clients' properties.", completes="file"),
    ),
)


def run(parsed: Parsed) -> int:
    _take_positionals(parsed)
    parsed.require("bootstrap-server", "topic", "num-records", "producer-acks", "record-size")
    count, acks = parsed.number("num-records") or 0, parsed.text("producer-acks") or ""
    if acks not in ("1", "all"):
        raise UsageError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please use '1' "
            "or 'all'."
        )
    if count <= 0:
        raise UsageError("Value for --num-records must be greater than 0.")
    if (parsed.number("record-size") or 0) <= 0:
        raise UsageError("Value for --record-size must be greater than 0.")
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher, FetchSettings
    from barnabas.client.settings import ClientSettings, read_properties

    path = parsed.text("command-config")
    properties = read_properties(path) if path else {}
    settings = ClientSettings.from_properties(
        properties | {"acks": acks, "linger.ms": "0"},
        bootstrap_servers=parsed.text("bootstrap-server"),
        client_id="e2e-latency",
    )
    with Cluster(settings) as cluster, Fetcher(cluster, FetchSettings(max_wait_ms=1000)) as fetcher:
        _measure(cluster, fetcher, parsed, count)
    return 0


def _take_positionals(parsed: Parsed) -> None:
    """The older form: bootstrap-server topic num-records producer-acks record-size [command-config]."""
    if not parsed.rest:
        return
    if len(parsed.rest) not in (5, 6):
        raise UsageError(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got {len(parsed.rest)}. Usage: "
            "bootstrap-server topic num-records producer-acks record-size [optional] command-config"
        )
    print(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named "
        f"arguments instead: {', '.join(f'--{name}' for name in POSITIONAL)}"
    )
    for name, text in zip(POSITIONAL, parsed.rest, strict=False):
        parsed.add(next(each for each in PARSER.options if each.name == name), text)


def _measure(cluster: Cluster, fetcher: Fetcher, parsed: Parsed, count: int) -> None:
    from barnabas.cli.records.reading import end_offsets, partitions_of
    from barnabas.client.producer import Producer

    topic = parsed.text("topic") or ""
    _ensure_topic(cluster, topic)
    fetcher.assign(end_offsets(cluster, partitions_of(cluster, [topic])))
    latencies_ms: Counter[int] = Counter()
    total_ms = 0.0
    with Producer(cluster.settings) as producer:
        for number in range(count):
            key, value, headers = _record(parsed)
            began_at = time.perf_counter()
            producer.send(topic, value, key, headers).result()
            _await(fetcher, value, number)
            elapsed_ms = (time.perf_counter() - began_at) * 1000
            if number % PROGRESS_RECORDS == 0:
                print(f"{number}\t{elapsed_ms:.6f}", flush=True)
            latencies_ms[int(elapsed_ms)] += 1
            total_ms += elapsed_ms
    print(f"Avg latency: {total_ms / count:.4f} ms")
    shares = ", ".join(f"{name} = {percentile(latencies_ms, share)}" for share, name in PERCENTILES)
    print(f"Percentiles: {shares}")


PERCENTILES = ((0.5, "50th"), (0.99, "99th"), (0.999, "99.9th"))


def _ensure_topic(cluster: Cluster, topic: str) -> None:
    from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    found = cluster.metadata([topic]).topics.get(topic)
    if found is not None and not found.error:
        return
    print(f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1')
    created = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    (result,) = cluster.ask_controller(CreateTopicsRequest(topics=[created], timeout_ms=30_000)).topics
    if result.error_code:
        raise ToolFailed(f"Topic {topic} cannot be created: {result.error_message}")
    cluster.forget_leader(topic)
    cluster.leader(topic, 0)


def _record(parsed: Parsed) -> tuple[bytes | None, bytes, list[tuple[str, bytes | None]]]:
    letters = bytes(65 + byte % 26 for byte in range(256))

    def text(name: str) -> bytes:
        return os.urandom(max(parsed.number(name) or 0, 0)).translate(letters)

    header_value = None if parsed.number("record-header-size") == -1 else text("record-header-size")
    headers = [
        (text("record-header-key-size").decode(), header_value) for _ in range(parsed.number("num-headers") or 0)
    ]
    return text("record-key-size") or None, text("record-size"), headers


def _await(fetcher: Fetcher, value: bytes, number: int) -> None:
    from barnabas.client.records import iterate_records

    deadline = time.monotonic() + TIMEOUT_MS / 1000
    while time.monotonic() < deadline:
        records = [record for fetched in fetcher.poll(1000) for record in iterate_records(fetched)]
        if not records:
            continue
        if len(records) > 1:
            raise ToolFailed(f"Only one result was expected during this test. We found [{len(records)}]")
        if bytes(records[0].value or b"") != value:
            raise ToolFailed("The message value read did not match the message value sent.")
        return
    raise ToolFailed(f"Message {number} did not arrive within {TIMEOUT_MS} ms.")
