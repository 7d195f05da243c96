"""The log cleaner, which compacts by key."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    Definition,
    at_least,
    between,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long the cleaner rests when no log needs it.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        134_217_728,
        "Memory for the table of keys, shared by all cleaner threads.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.delete.retention.ms",
        LONG,
        86_400_000,
        "How long tombstones stay in a compacted log, so that readers can see the deletion.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition("log.cleaner.enable", BOOLEAN, True, "Whether compaction runs; internal topics need it."),
    Definition(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the table of keys may get; fuller cleans more per pass at the price of collisions.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.io.buffer.size",
        INT,
        524_288,
        "Memory for reading and writing segments, shared by all cleaner threads.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        1.7976931348623157e308,
        "Most bytes per second the cleaner reads and writes, on average.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "A record may stay uncompacted for at most this long.",
        at_least(1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.min.cleanable.ratio",
        DOUBLE,
        0.5,
        "Share of uncompacted bytes a log must have before it is cleaned.",
        between(0, 1),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.min.compaction.lag.ms",
        LONG,
        0,
        "A record stays uncompacted for at least this long.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "log.cleaner.threads", INT, 1, "How many logs are cleaned side by side.", at_least(0), update=CLUSTER_WIDE
    ),
)
