"""Transactions and idempotent producers."""

from __future__ import annotations

from barnabas.node.configuration.definition import BOOLEAN, CLUSTER_WIDE, INT, SHORT, Definition, at_least

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        100,
        "Longest the broker keeps trying by itself to add a partition to a transaction.",
        at_least(0),
    ),
    Definition(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        20,
        "Pause before the broker tries by itself again to add a partition to a transaction.",
        at_least(1),
    ),
    Definition(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "How often forgotten producer ids are looked for.",
        at_least(1),
        internal=True,
    ),
    Definition(
        "producer.id.expiration.ms",
        INT,
        86_400_000,
        "A producer id that wrote nothing for this long is forgotten.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often transactions that ran out of time are aborted.",
        at_least(1),
    ),
    Definition("transaction.max.timeout.ms", INT, 900_000, "Longest transaction a producer may ask for.", at_least(1)),
    Definition(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "Whether a write is checked to belong to an open transaction of its producer.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        3_600_000,
        "How often expired transactional ids are removed.",
        at_least(1),
    ),
    Definition(
        "transaction.state.log.load.buffer.size",
        INT,
        5_242_880,
        "Bytes read at a time when transaction state is loaded.",
        at_least(1),
    ),
    Definition(
        "transaction.state.log.min.isr", INT, 2, "In-sync replicas a write to the transaction topic needs.", at_least(1)
    ),
    Definition(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "Partitions of the transaction topic, fixed once it exists.",
        at_least(1),
    ),
    Definition("transaction.state.log.replication.factor", SHORT, 3, "Replicas of the transaction topic.", at_least(1)),
    Definition(
        "transaction.state.log.segment.bytes", INT, 104_857_600, "Segment size of the transaction topic.", at_least(1)
    ),
    Definition(
        "transaction.two.phase.commit.enable",
        BOOLEAN,
        False,
        "Whether producers may keep a prepared transaction open for an outside coordinator.",
    ),
    Definition(
        "transactional.id.expiration.ms",
        INT,
        604_800_000,
        "A transactional id unused for this long is forgotten.",
        at_least(1),
    ),
)
