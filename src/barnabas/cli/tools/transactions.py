"""`kafka-transactions`: what producers with a transactional id are doing, and how to end what hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.connect import CONNECTION, OUTPUT, connect, unknown_topic, wants_json
from barnabas.cli.errors import ToolFailed, UsageError
from barnabas.cli.options import Parsed, Parser, option
from barnabas.cli.output import print_json
from barnabas.client.errors import ClientError
from barnabas.client.metadata import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

NONE = "None"
MINUTE_MS = 60_000

_TOPIC = option("--topic", takes="topic", help="The topic.", completes="topic")
_PARTITION = option("--partition", takes="partition", kind=int, help="The partition.")
_BROKER_ID = option("--broker-id", takes="id", kind=int, help="The replica to ask; the leader if there is none.")

PARSER = Parser(
    name="transactions",
    summary="Lists, describes and aborts transactions.",
    options=(*CONNECTION, OUTPUT),
    helps_without_arguments=False,
    commands=(
        Parser(
            name="list",
            summary="List transactions.",
            options=(
                option(
                    "--duration-filter", takes="ms", kind=int, default=-1, help="Only those that run longer than this."
                ),
                option("--transactional-id-pattern", takes="regex", help="Only ids that match."),
            ),
        ),
        Parser(
            name="describe",
            summary="Describe the transaction of a transactional id.",
            options=(option("--transactional-id", takes="id", help="The transactional id."),),
        ),
        Parser(
            name="describe-producers",
            summary="Describe the producers that write to a partition.",
            options=(_BROKER_ID, _TOPIC, _PARTITION),
        ),
        Parser(
            name="abort",
            summary="Abort a hanging transaction.",
            options=(
                _TOPIC,
                _PARTITION,
                option("--start-offset", takes="offset", kind=int, help="Where the transaction begins."),
                option("--producer-id", takes="id", kind=int, help="Of the transaction, for brokers before 3.0."),
                option("--producer-epoch", takes="epoch", kind=int, help="Of the transaction, for brokers before 3.0."),
                option(
                    "--coordinator-epoch", takes="epoch", kind=int, help="Of the transaction, for brokers before 3.0."
                ),
            ),
        ),
        Parser(
            name="find-hanging",
            summary="Find transactions that nobody will end.",
            options=(
                _BROKER_ID,
                option(
                    "--max-transaction-timeout",
                    takes="minutes",
                    kind=int,
                    default=15,
                    help="Only what is open for longer than this.",
                ),
                _TOPIC,
                _PARTITION,
            ),
        ),
        Parser(
            name="forceTerminateTransaction",
            summary="Abort what a transactional id has open, and fence its producer.",
            options=(option("--transactionalId", "--transactional-id", takes="id", help="The transactional id."),),
        ),
    ),
)


def run(parsed: Parsed) -> int:
    act = {
        "list": _list,
        "describe": _describe,
        "describe-producers": _describe_producers,
        "abort": _abort,
        "find-hanging": _find_hanging,
        "forceTerminateTransaction": _terminate,
    }[parsed.command or ""]
    with connect(parsed) as cluster:
        act(cluster, parsed)
    return 0


def _required(parsed: Parsed, *names: str) -> None:
    for name in names:
        if name not in parsed:
            raise UsageError(f"argument --{name} is required")


def _list(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import list_transactions

    longer_than_ms = parsed.number("duration-filter")
    pattern = parsed.text("transactional-id-pattern")
    try:
        listed = list_transactions(
            cluster, longer_than_ms=-1 if longer_than_ms is None else longer_than_ms, pattern=pattern
        )
    except ClientError as error:
        raise ToolFailed(f"Failed to list transactions: {error}") from None
    if wants_json(parsed):
        print_json([each._asdict() for each in listed])
        return
    rows = [[each.transactional_id, each.coordinator, each.producer_id, each.state] for each in listed]
    _print(["TransactionalId", "Coordinator", "ProducerId", "TransactionState"], rows)


def _describe(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import describe_transaction

    _required(parsed, "transactional-id")
    transactional_id = parsed.text("transactional-id") or ""
    try:
        told = describe_transaction(cluster, transactional_id)
    except ClientError as error:
        raise ToolFailed(
            f"Failed to describe transaction state of transactional-id `{transactional_id}`: {error}"
        ) from None
    if wants_json(parsed):
        partitions = [{"topic": topic, "partition": index} for topic, index in told.partitions]
        print_json(told._asdict() | {"partitions": partitions})
        return
    duration = NONE if told.start_ms is None else _now_ms() - told.start_ms
    _print(
        ["CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState",
         "TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"],
        [[told.coordinator, told.transactional_id, told.producer_id, told.producer_epoch, told.state,
          told.timeout_ms, NONE if told.start_ms is None else told.start_ms, duration,
          ",".join(f"{topic}-{index}" for topic, index in told.partitions)]],
    )  # fmt: skip


def _describe_producers(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import describe_producers

    _required(parsed, "topic", "partition")
    topic, partition = _partition(cluster, parsed)
    try:
        producers = describe_producers(cluster, topic, partition, parsed.number("broker-id"))
    except ClientError as error:
        told = "leader" if "broker-id" not in parsed else f"broker {parsed.number('broker-id')}"
        raise ToolFailed(f"Failed to describe producers for partition {topic}-{partition} on {told}: {error}") from None
    if wants_json(parsed):
        print_json([each._asdict() for each in producers])
        return
    _print(
        ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
         "CurrentTransactionStartOffset"],
        [[each.producer_id, each.producer_epoch, NONE if each.coordinator_epoch < 0 else each.coordinator_epoch,
          each.last_sequence, each.last_timestamp_ms,
          NONE if each.transaction_start_offset is None else each.transaction_start_offset] for each in producers],
    )  # fmt: skip


def _partition(cluster: Cluster, parsed: Parsed) -> TopicPartition:
    topic, partition = parsed.text("topic") or "", parsed.number("partition") or 0
    known = cluster.metadata([topic]).topics.get(topic)
    if known is None or known.error:
        raise unknown_topic(topic, cluster.metadata().topics)
    if partition not in known.partitions:
        raise ToolFailed(f"Topic '{topic}' has no partition {partition}: it has {len(known.partitions)} of them.")
    return topic, partition


def _abort(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import abort, describe_producers

    _required(parsed, "topic", "partition")
    old = ("producer-id", "producer-epoch", "coordinator-epoch")
    if "start-offset" not in parsed and not any(name in parsed for name in old):
        raise ToolFailed(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for name in old:
        if "start-offset" not in parsed and name not in parsed:
            raise ToolFailed(f"Missing required argument --{name}")
    topic, partition = _partition(cluster, parsed)
    try:
        if "start-offset" in parsed:
            offset = parsed.number("start-offset")
            found = [
                each
                for each in describe_producers(cluster, topic, partition)
                if each.transaction_start_offset == offset
            ]
            if not found:
                raise ToolFailed(
                    f"Could not find any open transactions starting at offset {offset} on partition {topic}-{partition}"
                )
            epoch, coordinator_epoch = found[0].producer_epoch, max(found[0].coordinator_epoch, 0)
            producer_id = found[0].producer_id
        else:
            producer_id, epoch, coordinator_epoch = (parsed.number(name) or 0 for name in old)
        abort(
            cluster,
            topic,
            partition,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )
    except ClientError as error:
        raise ToolFailed(f"Failed to abort transaction of partition {topic}-{partition}: {error}") from None


def _find_hanging(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import hanging, open_transactions

    minutes = parsed.number("max-transaction-timeout") or 0
    candidates = open_transactions(
        cluster,
        _to_search(cluster, parsed),
        before_ms=_now_ms() - minutes * MINUTE_MS,
        broker_id=parsed.number("broker-id"),
    )
    found = hanging(cluster, candidates)
    rows = [
        [each.topic, each.partition, each.producer.producer_id, each.producer.producer_epoch,
         NONE if each.producer.coordinator_epoch < 0 else each.producer.coordinator_epoch,
         each.producer.transaction_start_offset, each.producer.last_timestamp_ms,
         (_now_ms() - each.producer.last_timestamp_ms) // MINUTE_MS]
        for each in found
    ]  # fmt: skip
    header = ["Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
              "Duration(min)"]  # fmt: skip
    if wants_json(parsed):
        print_json([{"topic": each.topic, "partition": each.partition} | each.producer._asdict() for each in found])
    else:
        _print(header, rows)


def _to_search(cluster: Cluster, parsed: Parsed) -> list[TopicPartition]:
    if "topic" not in parsed and "broker-id" not in parsed:
        raise ToolFailed(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if "partition" in parsed and "topic" not in parsed:
        raise ToolFailed("The --partition argument requires --topic to be provided")
    if "partition" in parsed:
        return [_partition(cluster, parsed)]
    wanted = parsed.text("topic")
    topics = cluster.metadata(None if wanted is None else [wanted]).topics
    if wanted is not None and (wanted not in topics or topics[wanted].error):
        raise unknown_topic(wanted, cluster.metadata().topics)
    broker_id = parsed.number("broker-id")
    return [
        (name, index)
        for name, topic in sorted(topics.items())
        for index, partition in topic.partitions.items()
        if broker_id is None or broker_id in partition.replicas
    ]


def _terminate(cluster: Cluster, parsed: Parsed) -> None:
    from barnabas.client.admin.transactions import fence

    _required(parsed, "transactionalId")
    transactional_id = parsed.text("transactionalId") or ""
    try:
        fence(cluster, transactional_id)
    except ClientError as error:
        raise ToolFailed(f"Failed to force terminate transactionalId `{transactional_id}`: {error}") from None


def _print(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns end with a tab each, as those of Kafka's tool do."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(header))]
    for row in cells:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)))


def _now_ms() -> int:
    return round(time.time() * 1000)
