"""`kafka-verifiable-consumer`: consumes as a member of a group, and tells what happens to it as JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import BOOTSTRAP_SERVER
from barnabas.cli.deprecations import either, older
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.tools.verifiable_producer import Events, heed_signals, restore_signals

if TYPE_CHECKING:
    from barnabas.client.consumer import ConsumerRecord, GroupConsumer
    from barnabas.client.metadata import TopicPartition

POLL_MS = 200

PARSER = Parser(
    name="verifiable-consumer",
    summary="Consumes as a member of a group and prints events as JSON: assignments, records, commits.",
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="What to read.", completes="topic"),
        option("--group-id", takes="group", help="The group to be a member of.", completes="group"),
        option("--group-instance-id", takes="id", help="Be a static member of this id."),
        option("--group-protocol", takes="protocol", default="classic", help="Only classic is spoken here."),
        option("--group-remote-assignor", takes="name", help="Of the protocol consumer.", hidden=True),
        option("--max-messages", takes="count", kind=int, default=-1, help="How many; -1 for no end."),
        option("--session-timeout", takes="ms", kind=int, default=30_000, help="Of the member."),
        option("--verbose", help="Tell of every record."),
        option("--enable-autocommit", help="Commit now and then, instead of after every poll."),
        option("--reset-policy", takes="policy", default="earliest", help="earliest, latest or none."),
        option("--assignment-strategy", takes="class", help="The assignor, by its Java name."),
        option("--command-config", takes="file", help="A file with the consumer's properties.", completes="file"),
        older("consumer.config", "command-config", "file", completes="file"),
    ),
)


def run(parsed: Parsed) -> int:
    for name in ("topic", "group-id", "bootstrap-server"):
        if name not in parsed:
            raise UsageError(f"argument --{name} is required")
    from barnabas.client.consumer import GroupConsumer
    from barnabas.client.settings import ClientSettings

    events = Events()
    stopped = threading.Event()
    settings = ClientSettings.from_properties(
        _properties(parsed), bootstrap_servers=parsed.text("bootstrap-server"), client_id="verifiable-consumer"
    )
    before = heed_signals(stopped)
    try:
        events.tell("startup_complete")
        consumer = GroupConsumer(
            settings,
            topics=[parsed.text("topic") or ""],
            on_assigned=lambda partitions: events.tell("partitions_assigned", partitions=_named(partitions)),
            on_revoked=lambda partitions: events.tell("partitions_revoked", partitions=_named(partitions)),
        )
        try:
            _consume(consumer, parsed, events, stopped)
        finally:
            consumer.close()
        events.tell("shutdown_complete")
        events.tell("shutdown_requested")  # Kafka's tells so at its very end, whoever asked for it
    finally:
        restore_signals(before)
    return 0


def _properties(parsed: Parsed) -> dict[str, str]:
    from barnabas.client.settings import read_properties

    properties: dict[str, str] = {}
    for path in either(parsed, "command-config", "consumer.config"):
        properties |= read_properties(path)
    properties |= {
        "group.id": parsed.text("group-id") or "",
        "group.protocol": (parsed.text("group-protocol") or "").lower(),
        "session.timeout.ms": str(parsed.number("session-timeout")),
        "enable.auto.commit": str("enable-autocommit" in parsed).lower(),
        "auto.offset.reset": parsed.text("reset-policy") or "",
    }
    if "group-instance-id" in parsed:
        properties["group.instance.id"] = parsed.text("group-instance-id") or ""
    if "assignment-strategy" in parsed:
        properties["partition.assignment.strategy"] = parsed.text("assignment-strategy") or ""
    return properties


def _named(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": topic, "partition": index} for topic, index in partitions]


def _consume(consumer: GroupConsumer, parsed: Parsed, events: Events, stopped: threading.Event) -> None:
    wanted = parsed.number("max-messages") or 0
    consumed = 0
    while not stopped.is_set() and (wanted < 0 or consumed < wanted):
        records = consumer.poll(POLL_MS)
        if wanted >= 0 and len(records) > wanted - consumed:
            for record in _firsts(records[wanted - consumed :]):
                consumer.seek(record.topic, record.partition, record.offset)
            records = records[: wanted - consumed]
        if not records:
            continue
        consumed += len(records)
        _tell(records, events, verbose="verbose" in parsed)
        if "enable-autocommit" not in parsed:
            _commit(consumer, records, events)


def _firsts(records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    found: dict[TopicPartition, ConsumerRecord] = {}
    for record in records:
        found.setdefault((record.topic, record.partition), record)
    return list(found.values())


def _tell(records: list[ConsumerRecord], events: Events, *, verbose: bool) -> None:
    offsets: dict[TopicPartition, list[int]] = {}
    for record in records:
        offsets.setdefault((record.topic, record.partition), []).append(record.offset)
        if verbose:
            events.tell_record(record)
    summaries = [
        {"topic": topic, "partition": index, "count": len(seen), "minOffset": seen[0], "maxOffset": seen[-1]}
        for (topic, index), seen in offsets.items()
    ]
    events.tell("records_consumed", count=len(records), partitions=summaries)


def _commit(consumer: GroupConsumer, records: list[ConsumerRecord], events: Events) -> None:
    from barnabas.client.errors import ClientError
    from barnabas.client.offsets import CommittedOffset

    ends = {(record.topic, record.partition): record.offset + 1 for record in records}
    told = [{"topic": topic, "partition": index, "offset": offset} for (topic, index), offset in ends.items()]
    try:
        consumer.commit({partition: CommittedOffset(offset) for partition, offset in ends.items()})
    except ClientError as error:
        events.tell("offsets_committed", offsets=told, success=False, error=str(error))
        time.sleep(0.1)
    else:
        events.tell("offsets_committed", offsets=told, success=True)
