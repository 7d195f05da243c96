"""Rates at which replicas are copied: set while a broker runs, never in its file."""

from __future__ import annotations

from barnabas.node.configuration.definition import CLUSTER_WIDE, LONG, LONG_MAX, Definition, at_least

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes per second at which a follower copies the replicas that are throttled.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "Bytes per second at which a leader hands out the replicas that are throttled.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
    Definition(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        LONG,
        LONG_MAX,
        "Bytes per second at which replicas move between log directories.",
        at_least(0),
        update=CLUSTER_WIDE,
    ),
)
