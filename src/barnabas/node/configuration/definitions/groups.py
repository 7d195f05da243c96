"""Consumer groups and the offsets topic."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    SHORT,
    STRING,
    Definition,
    at_least,
    each_of,
    entries,
    one_of_any_case,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "group.consumer.assignment.interval.ms",
        INT,
        1000,
        "Least time between two assignments of a consumer group.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors the coordinator offers consumer groups, the first being the default.",
        entries,
    ),
    Definition(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5000,
        "How often members of a consumer group send heartbeats.",
        at_least(1),
    ),
    Definition(
        "group.consumer.max.assignment.interval.ms",
        INT,
        15_000,
        "Largest assignment interval a consumer group may be given.",
        at_least(0),
    ),
    Definition(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "Largest heartbeat interval a consumer group may be given.",
        at_least(1),
    ),
    Definition(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "Largest session timeout a consumer group may be given.",
        at_least(1),
    ),
    Definition("group.consumer.max.size", INT, INT_MAX, "Most members of a consumer group.", at_least(1)),
    Definition(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether groups may change between the classic and the consumer protocol, and in which direction.",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    ),
    Definition(
        "group.consumer.min.assignment.interval.ms",
        INT,
        0,
        "Smallest assignment interval a consumer group may be given.",
        at_least(0),
    ),
    Definition(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5000,
        "Smallest heartbeat interval a consumer group may be given.",
        at_least(1),
    ),
    Definition(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "Smallest session timeout a consumer group may be given.",
        at_least(1),
    ),
    Definition(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often regular expressions of subscriptions are matched against the topics again.",
        at_least(10_000),
        internal=True,
    ),
    Definition(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "A member of a consumer group not heard of for this long is removed.",
        at_least(1),
    ),
    Definition(
        "group.coordinator.append.linger.ms",
        INT,
        -1,
        "How long the coordinator gathers records before it writes them; -1 adapts to the load.",
        at_least(-1),
    ),
    Definition(
        "group.coordinator.background.threads",
        INT,
        2,
        "Threads of the JVM coordinator for work beside requests.",
        at_least(1),
    ),
    Definition(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        1_048_588,
        "Largest write buffer the coordinator keeps for reuse.",
        at_least(524_288),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer", "streams"),
        "Which group protocols are on; classic always is.",
        each_of("consumer", "classic", "share", "streams"),
    ),
    Definition(
        "group.coordinator.threads",
        INT,
        4,
        "Threads of the JVM coordinator; kept for compatibility, one event loop does this work here.",
        at_least(1),
    ),
    Definition(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long a new classic group waits for more members before its first rebalance.",
    ),
    Definition(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "Largest session timeout a member of a classic group may ask for.",
    ),
    Definition("group.max.size", INT, INT_MAX, "Most members of a classic group.", at_least(1)),
    Definition(
        "group.min.session.timeout.ms", INT, 6000, "Smallest session timeout a member of a classic group may ask for."
    ),
    Definition("offset.metadata.max.bytes", INT, 4096, "Largest remark a client may store with a committed offset."),
    Definition(
        "offsets.commit.timeout.ms",
        INT,
        5000,
        "How long a commit may wait for the replicas of the offsets topic.",
        at_least(1),
    ),
    Definition(
        "offsets.load.buffer.size", INT, 5_242_880, "Bytes read at a time when offsets are loaded.", at_least(1)
    ),
    Definition(
        "offsets.retention.check.interval.ms", LONG, 600_000, "How often expired offsets are looked for.", at_least(1)
    ),
    Definition(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the offsets of an empty group, or of an unsubscribed topic, are kept.",
        at_least(1),
    ),
    Definition(
        "offsets.topic.compression.codec",
        INT,
        0,
        "Codec of the offsets topic by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    ),
    Definition(
        "offsets.topic.num.partitions", INT, 50, "Partitions of the offsets topic, fixed once it exists.", at_least(1)
    ),
    Definition("offsets.topic.replication.factor", SHORT, 3, "Replicas of the offsets topic.", at_least(1)),
    Definition("offsets.topic.segment.bytes", INT, 104_857_600, "Segment size of the offsets topic.", at_least(1)),
)
