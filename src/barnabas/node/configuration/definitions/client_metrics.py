"""The configs of a client metrics subscription."""

from __future__ import annotations

from barnabas.node.configuration.definition import INT, LIST, Definition, entries

DEFINITIONS: tuple[Definition, ...] = (
    Definition("interval.ms", INT, 300_000, "How often matching clients push their metrics."),
    Definition("match", LIST, (), "Which clients are meant, as selector=regular expression pairs.", entries),
    Definition("metrics", LIST, (), "Prefixes of the names of the metrics asked for; * means all.", entries),
)
