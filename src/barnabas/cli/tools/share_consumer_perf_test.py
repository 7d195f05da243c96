"""`kafka-share-consumer-perf-test`: how fast the members of a share group consume."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from barnabas.cli.connect import BOOTSTRAP_SERVER, bootstrap
from barnabas.cli.deprecations import client_properties, either, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.perf_stats import MEGABYTE, shown_time

if TYPE_CHECKING:
    from barnabas.client.errors import ClientError
    from barnabas.client.share_consumer import ShareConsumer

POLL_MS = 100
HEADER = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"

PARSER = Parser(
    name="share-consumer-perf-test",
    summary="Measures how fast the members of a share group consume.",
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="What to read.", completes="topic"),
        option("--num-records", takes="count", kind=int, help="How many, of all members together."),
        older("messages", "num-records", "count"),
        option("--group", takes="group", default="perf-share-consumer", help="The share group.", completes="group"),
        option("--threads", takes="count", kind=int, default=1, help="How many members."),
        option("--fetch-size", takes="bytes", kind=int, default=1024 * 1024, help="Of one request."),
        option("--socket-buffer-size", takes="bytes", kind=int, default=2 * 1024 * 1024, help="Of the socket."),
        option("--timeout", takes="ms", kind=int, default=10_000, help="How long records are waited for."),
        option("--reporting-interval", takes="ms", kind=int, default=5000, help="Between lines of detail."),
        option("--date-format", takes="format", default="yyyy-MM-dd HH:mm:ss:SSS", help="How times are printed."),
        option("--hide-header", help="Leave out the line that names the columns."),
        option("--show-detailed-stats", help="A line per member and interval too."),
        option("--show-consumer-stats", help="A line per member too."),
        option("--print-metrics", help="Print what the members counted."),
        option("--command-property", takes="key=value", repeated=True, help="A property of the consumers."),
        option("--command-config", takes="file", help="A file with the consumers' properties.", completes="file"),
        older("consumer.config", "command-config", "file", completes="file"),
    ),
)


class Member(threading.Thread):
    """One of the group, on a thread of its own."""

    def __init__(self, consumer: ShareConsumer, number: int, client_id: str, test: Test) -> None:
        super().__init__(name=client_id, daemon=True)
        self.consumer, self.number, self.client_id = consumer, number, client_id
        self._test = test
        self.records = self.bytes = 0
        self.failure: ClientError | None = None

    def run(self) -> None:
        from barnabas.client.errors import ClientError

        try:
            self._consume()
            self.consumer.commit()
        except ClientError as error:
            self.failure = error
            self._test.enough.set()

    def _consume(self) -> None:
        test = self._test
        last_at = reported_at = time.time()
        reported_records = reported_bytes = 0
        while not test.enough.is_set() and (now := time.time()) - last_at <= test.timeout_s:
            if now - reported_at >= test.interval_s:
                since = (reported_at, reported_records, reported_bytes)
                test.report(self, *since, now)
                reported_at, reported_records, reported_bytes = now, self.records, self.bytes
            records = self.consumer.poll(POLL_MS)
            for record in records:
                self.bytes += len(record.key or b"") + len(record.value or b"")
                self.consumer.ack(record)
            if records:
                last_at = time.time()
                self.records += len(records)
                test.count(len(records))


class Test:
    def __init__(self, parsed: Parsed, wanted: int) -> None:
        self.timeout_s = (parsed.number("timeout") or 0) / 1000
        self.interval_s = (parsed.number("reporting-interval") or 0) / 1000
        self.enough = threading.Event()
        self.date_format = parsed.text("date-format") or ""
        self._wanted, self._consumed = wanted, 0
        self._detailed = "show-detailed-stats" in parsed
        self._lock = threading.Lock()

    def count(self, records: int) -> None:
        with self._lock:
            self._consumed += records
            if self._consumed >= self._wanted:
                self.enough.set()

    def report(self, member: Member, since: float, records: int, size: int, now: float) -> None:
        if self._detailed:
            rate = figures(member.bytes - size, member.records - records, since, now)[1:3]
            print(
                f"{self.shown(since)}, {self.shown(now)}, {member.bytes / MEGABYTE:.4f}, {', '.join(rate)}, "
                f"{member.records}, {milliseconds(since, now)} for share consumer {member.number}",
                flush=True,
            )

    def line(self, size: int, records: int, start: float, end: float) -> str:
        return ", ".join([self.shown(start), self.shown(end), *figures(size, records, start, end)])

    def shown(self, at: float) -> str:
        return shown_time(at, self.date_format)


def figures(size: int, records: int, start: float, end: float) -> list[str]:
    """Megabytes, megabytes a second, records a second, records, milliseconds."""
    elapsed_s = max(end - start, 0.001)
    megabytes = size / MEGABYTE
    return [
        f"{megabytes:.4f}",
        f"{megabytes / elapsed_s:.4f}",
        f"{records / elapsed_s:.4f}",
        str(records),
        str(milliseconds(start, end)),
    ]


def milliseconds(start: float, end: float) -> int:
    return round((end - start) * 1000)


def run(parsed: Parsed) -> int:
    wanted = _check(parsed)
    test = Test(parsed, wanted)
    if "hide-header" not in parsed:
        print(HEADER)
    members = _members(parsed, test)
    start = time.time()
    try:
        for member in members:
            member.start()
        for member in members:
            member.join()
        end = time.time()
    finally:
        test.enough.set()
        for member in members:
            member.consumer.close()
    for member in members:
        if member.failure is not None:
            raise member.failure
    _print_result(parsed, test, members, wanted, start, end)
    return 0


def _check(parsed: Parsed) -> int:
    for name in ("topic", "bootstrap-server"):
        if name not in parsed:
            raise UsageError(f'Missing required argument "[{name}]"')
    given = either(parsed, "num-records", "messages")
    if not given:
        raise UsageError("Exactly one of the following arguments is required: [messages], [num-records]")
    if not given[0].isdecimal():
        raise UsageError(f"Cannot parse argument '{given[0]}' of option num-records")
    if (parsed.number("reporting-interval") or 0) <= 0:
        raise UsageError("Reporting interval must be greater than 0.")
    if (parsed.number("threads") or 0) <= 0:
        raise UsageError("The number of threads must be greater than 0.")
    return int(given[0])


def _members(parsed: Parsed, test: Test) -> list[Member]:
    from barnabas.client.settings import ClientSettings
    from barnabas.client.share_consumer import ShareConsumer

    properties = client_properties(parsed, files=("command-config", "consumer.config"), pairs=("command-property",))
    base = properties.get("client.id", "perf-share-consumer-client")
    count = parsed.number("threads") or 1
    members = []
    for number in range(1, count + 1):
        client_id = base if count == 1 else f"{base}-{number}"
        settings = ClientSettings.from_properties(
            properties | {"client.id": client_id}, bootstrap_servers=bootstrap(parsed), client_id=client_id
        )
        consumer = ShareConsumer(
            settings,
            parsed.text("group") or "",
            [parsed.text("topic") or ""],
            fetch_max_bytes=parsed.number("fetch-size") or 0,
        )
        members.append(Member(consumer, number, client_id, test))
    return members


def _print_result(parsed: Parsed, test: Test, members: list[Member], wanted: int, start: float, end: float) -> None:
    records, size = sum(each.records for each in members), sum(each.bytes for each in members)
    if "show-consumer-stats" in parsed:
        for each in members:
            print(
                f"Share consumer {each.number} having client id {each.client_id} consumption metrics- "
                f"{test.line(each.bytes, each.records, start, end)}"
            )
    if records < wanted:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout "
            f"({round(test.timeout_s * 1000)} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    print(test.line(size, records, start, end))
    if "print-metrics" in parsed:
        for each in members:
            print(f"{each.client_id}: records-consumed-total {each.records}, bytes-consumed-total {each.bytes}")
