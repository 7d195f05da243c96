"""`kafka-verifiable-share-consumer`: consumes as a member of a share group, and tells what happens to it as JSON."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from barnabas.cli.connect import BOOTSTRAP_SERVER
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.tools.verifiable_producer import Events, heed_signals, restore_signals

if TYPE_CHECKING:
    from barnabas.client.metadata import TopicPartition
    from barnabas.client.settings import ClientSettings
    from barnabas.client.share_consumer import ShareConsumer, ShareRecord

POLL_MS = 200
MODES = ("auto", "sync", "async")
STRATEGIES = ("earliest", "latest")

PARSER = Parser(
    name="verifiable-share-consumer",
    summary="Consumes as a member of a share group and prints events as JSON: records, acknowledgements.",
    options=(
        BOOTSTRAP_SERVER,
        option("--topic", takes="topic", help="What to read.", completes="topic"),
        option("--group-id", takes="group", help="The share group to be a member of.", completes="group"),
        option("--max-messages", takes="count", kind=int, default=-1, help="How many; -1 for no end."),
        option("--verbose", help="Tell of every record."),
        option("--acknowledgement-mode", takes="mode", default="auto", help="auto, sync or async."),
        option("--offset-reset-strategy", takes="strategy", help="Set the group's: earliest or latest."),
        option("--command-config", takes="file", help="A file with the consumer's properties.", completes="file"),
    ),
)


def run(parsed: Parsed) -> int:
    for name in ("topic", "group-id", "bootstrap-server"):
        if name not in parsed:
            raise UsageError(f"argument --{name} is required")
    mode = (parsed.text("acknowledgement-mode") or "").lower()
    if mode not in MODES:
        raise UsageError(f"argument --acknowledgement-mode: {mode!r} is not one of {', '.join(MODES)}")
    strategy = (parsed.text("offset-reset-strategy") or "").lower()
    if strategy and strategy not in STRATEGIES:
        raise UsageError(f"argument --offset-reset-strategy: {strategy!r} is not one of {', '.join(STRATEGIES)}")
    from barnabas.client.settings import ClientSettings, read_properties
    from barnabas.client.share_consumer import ShareConsumer

    path = parsed.text("command-config")
    settings = ClientSettings.from_properties(
        read_properties(path) if path else {},
        bootstrap_servers=parsed.text("bootstrap-server"),
        client_id="verifiable-share-consumer",
    )
    events = Events()
    stopped = threading.Event()
    group, topic = parsed.text("group-id") or "", parsed.text("topic") or ""
    before = heed_signals(stopped)
    try:
        events.tell("startup_complete")
        if strategy:
            _set_strategy(settings, group, strategy)
            events.tell("offset_reset_strategy_set", offsetResetStrategy=strategy)
        with ShareConsumer(settings, group, [topic]) as consumer:
            _consume(consumer, parsed, events, stopped)
        events.tell("shutdown_complete")
    finally:
        restore_signals(before)
    return 0


def _set_strategy(settings: ClientSettings, group: str, strategy: str) -> None:
    from barnabas.client.admin.configs import GROUP, alter_configs
    from barnabas.client.cluster import Cluster

    with Cluster(settings) as cluster:
        alter_configs(cluster, GROUP, {group: {"share.auto.offset.reset": strategy}})


def _consume(consumer: ShareConsumer, parsed: Parsed, events: Events, stopped: threading.Event) -> None:
    """In every mode what was consumed is acknowledged before the next records are asked for."""
    wanted = parsed.number("max-messages")
    acknowledged = 0
    while not stopped.is_set() and (wanted is None or wanted < 0 or acknowledged < wanted):
        records = consumer.poll(POLL_MS)
        if records:
            offsets = _tell(records, events, verbose="verbose" in parsed)
            for record in records:
                consumer.ack(record)
            acknowledged += _commit(consumer, offsets, events)


def _tell(records: list[ShareRecord], events: Events, *, verbose: bool) -> dict[TopicPartition, list[int]]:
    offsets: dict[TopicPartition, list[int]] = {}
    for record in records:
        offsets.setdefault((record.topic, record.partition), []).append(record.offset)
        if verbose:
            events.tell_record(record)
    events.tell("records_consumed", count=len(records), partitions=_summaries(offsets))
    return offsets


def _summaries(offsets: dict[TopicPartition, list[int]]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": index, "count": len(seen), "offsets": sorted(seen)}
        for (topic, index), seen in offsets.items()
    ]


def _commit(consumer: ShareConsumer, offsets: dict[TopicPartition, list[int]], events: Events) -> int:
    """How many were acknowledged."""
    from barnabas.client.errors import ClientError

    count = sum(map(len, offsets.values()))
    told: dict[str, Any] = {"count": count, "partitions": _summaries(offsets)}
    try:
        consumer.commit()
    except ClientError as error:
        events.tell("offsets_acknowledged", **told, success=False, error=str(error))
        return 0
    events.tell("offsets_acknowledged", **told, success=True)
    return count
