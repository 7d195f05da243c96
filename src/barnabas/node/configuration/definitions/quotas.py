"""Quotas, metrics and telemetry."""

from __future__ import annotations

from barnabas.node.configuration.definition import (
    CLASS,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    STRING,
    Definition,
    at_least,
    entries,
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "alter.log.dirs.replication.quota.window.num",
        INT,
        11,
        "Samples kept for the quota on moving replicas between directories.",
        at_least(1),
    ),
    Definition(
        "alter.log.dirs.replication.quota.window.size.seconds",
        INT,
        1,
        "Length of a sample of the quota on moving replicas between directories.",
        at_least(1),
    ),
    Definition(
        "client.quota.callback.class",
        CLASS,
        None,
        "Class that decides client quotas; Java classes cannot be loaded here.",
    ),
    Definition(
        "controller.quota.window.num",
        INT,
        11,
        "Samples kept for the quota on changes of topics and partitions.",
        at_least(1),
    ),
    Definition(
        "controller.quota.window.size.seconds",
        INT,
        1,
        "Length of a sample of the quota on changes of topics and partitions.",
        at_least(1),
    ),
    Definition(
        "kafka.metrics.polling.interval.secs",
        INT,
        10,
        "How often the JVM broker's own reporters are asked to report.",
        at_least(1),
    ),
    Definition(
        "kafka.metrics.reporters",
        LIST,
        (),
        "Reporter classes of the JVM broker; Java classes cannot be loaded here.",
        entries,
    ),
    Definition(
        "metric.reporters",
        LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",),
        "Classes that publish metrics; Java classes cannot be loaded here.",
        entries,
        update=CLUSTER_WIDE,
    ),
    Definition("metrics.num.samples", INT, 2, "Samples from which a metric is computed.", at_least(1)),
    Definition("metrics.recording.level", STRING, "INFO", "How much is measured: INFO, DEBUG or TRACE."),
    Definition("metrics.sample.window.ms", LONG, 30_000, "Length of a sample of a metric.", at_least(1)),
    Definition("quota.window.num", INT, 11, "Samples kept for client quotas.", at_least(1)),
    Definition("quota.window.size.seconds", INT, 1, "Length of a sample of client quotas.", at_least(1)),
    Definition("replication.quota.window.num", INT, 11, "Samples kept for the quota on replication.", at_least(1)),
    Definition(
        "replication.quota.window.size.seconds", INT, 1, "Length of a sample of the quota on replication.", at_least(1)
    ),
    Definition(
        "telemetry.max.bytes", INT, 1_048_576, "Largest batch of metrics a client may push to the broker.", at_least(1)
    ),
)
