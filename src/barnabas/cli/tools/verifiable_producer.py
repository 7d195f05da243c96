"""`kafka-verifiable-producer`: produces 0, 1, 2 and so on, and tells of every one as JSON what became of it."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import BOOTSTRAP_SERVER
from barnabas.cli.deprecations import either, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.records.perf_stats import Throttle

if TYPE_CHECKING:
    from barnabas.client.producer import Producer, RecordMetadata
    from barnabas.client.records import ConsumerRecord
    from barnabas.client.share_consumer import ShareRecord

PARSER = Parser(
    name="verifiable-producer",
    summary="Produces increasing integers and prints each one's fate as JSON.",
    help_exit=1,
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="Where to.", completes="topic"),
        option("--max-messages", takes="count", kind=int, default=-1, help="How many; -1 for no end."),
        option("--throughput", takes="records/s", kind=float, default=-1.0, help="At most; -1 for no limit."),
        option("--acks", takes="acks", default="-1", help="Whose answer counts: 0, 1 or -1."),
        option("--message-create-time", takes="ms", kind=int, default=-1, help="The first record's timestamp."),
        option("--value-prefix", takes="number", help="Stands before each value, with a dot between."),
        option("--repeating-keys", takes="count", kind=int, help="Keys from 0 up to this, again and again."),
        option("--command-config", takes="file", help="A file with the producer's properties.", completes="file"),
        older("producer.config", "command-config", "file", completes="file"),
    ),
)


class Events:
    """Lines of JSON on stdout, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def tell(self, name: str, **more: Any) -> None:
        event = {"timestamp": round(time.time() * 1000), "name": name, **more}
        with self._lock:
            sys.stdout.write(json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n")
            sys.stdout.flush()

    def tell_record(self, record: ConsumerRecord | ShareRecord) -> None:
        self.tell(
            "record_data",
            key=_text(record.key),
            value=_text(record.value),
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode(errors="replace")


class Verification:
    def __init__(self, parsed: Parsed, events: Events) -> None:
        self.stopped = threading.Event()
        self.sent = self.acked = 0
        self._parsed = parsed
        self._events = events
        self._topic = parsed.text("topic") or ""
        self._prefix = parsed.text("value-prefix")
        self._keys = parsed.number("repeating-keys")
        self._created_ms = parsed.number("message-create-time") or 0

    def produce(self, producer: Producer) -> None:
        wanted = self._parsed.number("max-messages") or 0
        throttle = Throttle(float(self._parsed.text("throughput") or -1))
        began_ms = round(time.time() * 1000)
        while (wanted < 0 or self.sent < wanted) and not self.stopped.is_set():
            number = self.sent
            value = f"{self._prefix}.{number}" if self._prefix is not None else str(number)
            key = str(number % self._keys) if self._keys else None
            timestamp = None
            if self._created_ms > 0:
                timestamp = self._created_ms + round(time.time() * 1000) - began_ms
            self._send(producer, key, value, timestamp)
            self.sent += 1
            throttle.wait(self.sent)

    def _send(self, producer: Producer, key: str | None, value: str, timestamp: int | None) -> None:
        from barnabas.client.errors import ClientError

        def told(metadata: RecordMetadata | None, error: Exception | None) -> None:
            if metadata is None:
                self._failed(key, value, error)
                return
            self.acked += 1
            self._events.tell(
                "producer_send_success",
                key=key,
                value=value,
                offset=metadata.offset,
                topic=self._topic,
                partition=metadata.partition,
            )

        try:
            encoded = None if key is None else key.encode()
            producer.send(self._topic, value.encode(), encoded, timestamp=timestamp, callback=told)
        except ClientError as error:
            self._failed(key, value, error)

    def _failed(self, key: str | None, value: str, error: Exception | None) -> None:
        kind = type(error).__name__
        self._events.tell(
            "producer_send_error", key=key, value=value, exception=kind, message=str(error), topic=self._topic
        )


def run(parsed: Parsed) -> int:
    for name in ("topic", "bootstrap-server"):
        if name not in parsed:
            raise UsageError(f"argument --{name} is required")
    from barnabas.client.producer import Producer
    from barnabas.client.settings import ClientSettings, read_properties

    properties: dict[str, str] = {}
    for path in either(parsed, "command-config", "producer.config"):
        properties |= read_properties(path)
    properties |= {"acks": parsed.text("acks") or "", "retries": properties.get("retries", "0")}
    settings = ClientSettings.from_properties(
        properties, bootstrap_servers=parsed.text("bootstrap-server"), client_id="verifiable-producer"
    )
    events = Events()
    verification = Verification(parsed, events)
    before = heed_signals(verification.stopped)
    began_at = time.monotonic()
    try:
        events.tell("startup_complete")
        with Producer(settings) as producer:
            verification.produce(producer)
        events.tell("shutdown_complete")
        rate = float(parsed.text("throughput") or -1)
        events.tell(
            "tool_data",
            sent=verification.sent,
            acked=verification.acked,
            target_throughput=int(rate) if rate == int(rate) else rate,
            avg_throughput=verification.acked / max(time.monotonic() - began_at, 0.001),
        )
    finally:
        restore_signals(before)
    return 0


def heed_signals(stopped: threading.Event) -> dict[int, Any]:
    """SIGINT and SIGTERM end what runs; what has begun is told to its end."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)}


def restore_signals(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
