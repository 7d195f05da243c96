"""`kafka-consumer-perf-test`: how fast records can be consumed.

Reads without being a member of a group, so that nothing but fetching is measured. Of a group that is named, the
committed offsets are where it begins, and where it ends is committed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER, ZOOKEEPER, bootstrap
from barnabas.cli.deprecations import client_properties, either, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.perf_stats import MEGABYTE, shown_time
from barnabas.cli.terminal import ProgressBar

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher
    from barnabas.client.metadata import TopicPartition

POLL_MS = 100
HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, "
    "fetch.nMsg.sec"
)

PARSER = Parser(
    name="consumer-perf-test",
    summary="Measures how fast records can be consumed.",
    options=(
        BOOTSTRAP_SERVER,
        ZOOKEEPER,
        option("--topic", takes="topic", help="What to read.", completes="topic"),
        option("--include", takes="regex", help="Read every topic whose name matches."),
        option("--num-records", takes="count", kind=int, help="How many."),
        older("messages", "num-records", "count"),
        option("--group", takes="group", help="Begin and end at this group's offsets.", completes="group"),
        option("--fetch-size", takes="bytes", kind=int, default=1024 * 1024, help="Per partition and request."),
        option("--socket-buffer-size", takes="bytes", kind=int, default=2 * 1024 * 1024, help="Of the socket."),
        option("--threads", takes="count", kind=int, hidden=True, help="Of older versions: one is enough."),
        option("--from-latest", help="Begin at the end where the group has no offsets."),
        option("--date-format", takes="format", default="yyyy-MM-dd HH:mm:ss:SSS", help="How times are printed."),
        option("--hide-header", help="Leave out the line that names the columns."),
        option("--show-detailed-stats", help="A line per interval, instead of one for all."),
        option("--reporting-interval", takes="ms", kind=int, default=5000, help="Between such lines."),
        option("--timeout", takes="ms", kind=int, default=10_000, help="How long records are waited for."),
        option("--print-metrics", help="Print what the consumer counted."),
        option("--command-property", takes="key=value", repeated=True, help="A property of the consumer."),
        option("--command-config", takes="file", help="A file with the consumer's properties.", completes="file"),
        older("consumer.config", "command-config", "file", completes="file"),
    ),
)


class Progress:
    """What was read so far, and since the last line."""

    def __init__(self) -> None:
        self.records = self.bytes = 0
        self.start = self.window_start = time.time()
        self.prepared_ms = 0
        self._window_records = self._window_bytes = 0

    def line(self, now: float, prepared_ms: int, date_format: str) -> str:
        elapsed_s = max(now - self.window_start, 0.001)
        megabytes = (self.bytes - self._window_bytes) / MEGABYTE
        records = self.records - self._window_records
        fetch_ms = round(elapsed_s * 1000) - prepared_ms
        fetch_s = fetch_ms / 1000
        told = (
            f"{shown_time(now, date_format)}, 0, {self.bytes / MEGABYTE:.4f}, {megabytes / elapsed_s:.4f}, "
            f"{self.records}, {records / elapsed_s:.4f}, {prepared_ms}, {fetch_ms}, "
            f"{megabytes / fetch_s if fetch_ms > 0 else 0:.4f}, {records / fetch_s if fetch_ms > 0 else 0:.4f}"
        )
        self.window_start, self._window_records, self._window_bytes = now, self.records, self.bytes
        return told

    def total(self, now: float, date_format: str) -> str:
        elapsed_s = max(now - self.start, 0.001)
        megabytes = self.bytes / MEGABYTE
        fetch_ms = max(round(elapsed_s * 1000) - self.prepared_ms, 1)
        return (
            f"{shown_time(self.start, date_format)}, {shown_time(now, date_format)}, {megabytes:.4f}, "
            f"{megabytes / elapsed_s:.4f}, {self.records}, {self.records / elapsed_s:.4f}, {self.prepared_ms}, "
            f"{fetch_ms}, {megabytes / fetch_ms * 1000:.4f}, {self.records / fetch_ms * 1000:.4f}"
        )


def run(parsed: Parsed) -> int:
    from barnabas.client.cluster import Cluster
    from barnabas.client.fetcher import Fetcher, FetchSettings
    from barnabas.client.settings import ClientSettings

    count = _count(parsed)
    if ("topic" in parsed) == ("include" in parsed):
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    properties = client_properties(parsed, files=("command-config", "consumer.config"), pairs=("command-property",))
    properties["max.partition.fetch.bytes"] = str(parsed.number("fetch-size"))
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=bootstrap(parsed), client_id=properties.get("client.id", "perf-consumer-client")
    )
    progress = Progress()
    date_format = parsed.text("date-format") or ""
    with Cluster(settings) as cluster, Fetcher(cluster, FetchSettings.from_properties(properties)) as fetcher:
        group = parsed.text("group")
        positions = _positions(cluster, parsed, group)
        if "hide-header" not in parsed:
            print(("time, threadId, " if "show-detailed-stats" in parsed else "start.time, end.time, ") + HEADER)
        fetcher.assign(positions)
        progress.prepared_ms = round((time.time() - progress.start) * 1000)
        _consume(fetcher, parsed, progress, count, date_format)
        now = time.time()
        if group is not None:
            from barnabas.client.admin.groups import commit_offsets

            commit_offsets(cluster, group, fetcher.positions)
    if "show-detailed-stats" not in parsed:
        print(progress.total(now, date_format))
    if "print-metrics" in parsed:
        _print_metrics(settings.client_id, progress, now)
    return 0


def _count(parsed: Parsed) -> int:
    given = either(parsed, "num-records", "messages")
    if not given:
        raise UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    if not given[0].isdecimal():
        raise UsageError(f"Cannot parse argument '{given[0]}' of option num-records")
    return int(given[0])


def _positions(cluster: Cluster, parsed: Parsed, group: str | None) -> dict[TopicPartition, int]:
    from barnabas.cli.records.reading import partitions_of, start_offsets
    from barnabas.client.admin.groups import committed_offsets

    topics = [parsed.text("topic") or ""]
    if "include" in parsed:
        import re

        pattern = re.compile(parsed.text("include") or "")
        topics = [name for name, topic in cluster.metadata().topics.items() if pattern.fullmatch(name)]
    partitions = partitions_of(cluster, topics)
    positions = start_offsets(cluster, partitions, "end" if "from-latest" in parsed else "beginning", 0)
    if group is not None:
        committed = committed_offsets(cluster, group)
        positions |= {each: committed[each].offset for each in partitions if each in committed}
    return positions


def _consume(fetcher: Fetcher, parsed: Parsed, progress: Progress, count: int, date_format: str) -> None:
    from barnabas.client.records import count as counted

    timeout_s = (parsed.number("timeout") or 0) / 1000
    interval_s = max(parsed.number("reporting-interval") or 5000, 1) / 1000
    detailed = "show-detailed-stats" in parsed
    prepared_ms = progress.prepared_ms
    last_at = time.time()
    bar = ProgressBar(count, "records")
    while progress.records < count:
        fetched = fetcher.poll(POLL_MS)
        now = time.time()
        for each in fetched:
            records, size = counted(each)
            progress.records += records
            progress.bytes += size
        if fetched:
            last_at = now
            bar.show(progress.records)
        elif now - last_at > timeout_s:
            print(
                f"WARNING: Exiting before consuming the expected number of records: timeout ({round(timeout_s * 1000)} "
                "ms) exceeded. You can use the --timeout option to increase the timeout."
            )
            return
        if detailed and now - progress.window_start >= interval_s:
            print(progress.line(now, prepared_ms, date_format), flush=True)
            prepared_ms = 0
    bar.end()


def _print_metrics(client: str, progress: Progress, now: float) -> None:
    elapsed_s = max(now - progress.start, 0.001)
    metrics = {
        f"consumer-fetch-manager-metrics:bytes-consumed-total:{{client-id={client}}}": float(progress.bytes),
        f"consumer-fetch-manager-metrics:records-consumed-rate:{{client-id={client}}}": progress.records / elapsed_s,
        f"consumer-fetch-manager-metrics:records-consumed-total:{{client-id={client}}}": float(progress.records),
    }
    width = max(map(len, metrics))
    print(f"\n{'Metric Name':<{width}} Value")
    for name, value in metrics.items():
        print(f"{name:<{width}} : {value:.3f}")
    sys.stdout.flush()
