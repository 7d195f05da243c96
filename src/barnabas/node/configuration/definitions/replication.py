"""Replicas, leaders and the waiting rooms of requests."""

from __future__ import annotations

from barnabas.node.configuration.definition import BOOLEAN, CLUSTER_WIDE, INT, LONG, STRING, Definition, at_least

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "auto.leader.rebalance.enable", BOOLEAN, True, "Whether leadership returns to the preferred replicas by itself."
    ),
    Definition("controller.socket.timeout.ms", INT, 30_000, "Time limit of a broker's calls to the controller."),
    Definition("default.replication.factor", INT, 1, "Replicas a topic gets when nobody says how many."),
    Definition(
        "delete.records.purgatory.purge.interval.requests",
        INT,
        1,
        "After how many finished DeleteRecords waits the JVM broker tidies its waiting room.",
    ),
    Definition(
        "fetch.purgatory.purge.interval.requests",
        INT,
        1000,
        "After how many finished fetch waits the JVM broker tidies its waiting room.",
    ),
    Definition(
        "leader.imbalance.check.interval.seconds",
        LONG,
        300,
        "How often the controller looks for leaders that are not the preferred ones.",
        at_least(1),
    ),
    Definition(
        "min.insync.replicas",
        INT,
        1,
        "With acks=all, how many in-sync replicas a write needs.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "num.replica.alter.log.dirs.threads",
        INT,
        None,
        "How many threads move replicas between directories; unset, one per directory.",
    ),
    Definition(
        "num.replica.fetchers",
        INT,
        1,
        "How many connections a follower opens to each leader it copies from.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "producer.purgatory.purge.interval.requests",
        INT,
        1000,
        "After how many finished produce waits the JVM broker tidies its waiting room.",
    ),
    Definition(
        "replica.fetch.backoff.ms", INT, 1000, "How long a follower rests after a fetch that failed.", at_least(0)
    ),
    Definition(
        "replica.fetch.max.bytes",
        INT,
        1_048_576,
        "Bytes a follower asks for per partition; a larger first batch still comes.",
        at_least(0),
    ),
    Definition("replica.fetch.min.bytes", INT, 1, "Bytes a leader should gather before it answers a follower."),
    Definition(
        "replica.fetch.response.max.bytes",
        INT,
        10_485_760,
        "Bytes a follower asks for per answer; a larger first batch still comes.",
        at_least(0),
    ),
    Definition(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "How long a leader may hold a follower's fetch when there is too little to send.",
    ),
    Definition(
        "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, "How often the high watermarks are written down."
    ),
    Definition(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "A follower that has not caught up for this long leaves the in-sync replicas.",
    ),
    Definition(
        "replica.selector.class",
        STRING,
        None,
        "Class that picks the replica a consumer reads from; Kafka's RackAwareReplicaSelector is known.",
    ),
    Definition(
        "replica.socket.receive.buffer.bytes", INT, 65_536, "Receive buffer of a follower's connection to a leader."
    ),
    Definition("replica.socket.timeout.ms", INT, 30_000, "Time limit of a follower's calls to a leader."),
    Definition(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is behind may become leader when no other is left, losing records.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "unclean.leader.election.interval.ms",
        LONG,
        300_000,
        "How often the controller looks for partitions that only an unclean election would bring back.",
        at_least(1),
        internal=True,
    ),
)
