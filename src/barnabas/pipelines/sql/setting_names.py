"""Names of settings: those of topologies may have a prefix, as in ksqlDB."""

from __future__ import annotations

STREAMS_PREFIX = "ksql.streams."


def bare_name(setting: str) -> str:
    """`ksql.streams.auto.offset.reset` is `auto.offset.reset`."""
    return setting.removeprefix(STREAMS_PREFIX)
