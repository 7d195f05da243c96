"""Every configuration key of Kafka 4.3.1, with its type, default and bounds, and the few that are ours.

A table is imported when one of its keys is first asked for: a node starts without those of TLS, SASL and the like.

Deliberately wider than Kafka's: `segment.bytes` and `log.segment.bytes` go down to 14 bytes, as before Kafka 4, because
courses and tests roll segments that small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from barnabas.node.configuration.definition import Definition

# Those a node asks first come first; a key whose prefix stands below is looked for in that table alone.
_BROKER_TABLES = (
    "general",
    "network",
    "log",
    "quorum",
    "groups",
    "transactions",
    "replication",
    "cleaner",
    "quotas",
    "security",
    "shares",
    "tiered",
    "sasl",
    "tls",
    "own",
)
_TABLE_OF_PREFIX = {
    "ssl.": "tls",
    "sasl.": "sasl",
    "remote.": "tiered",
    "group.share.": "shares",
    "group.streams.": "shares",
    "share.": "shares",
    "log.cleaner.": "cleaner",
    "barnabas.": "own",
}


@cache
def table(name: str) -> dict[str, Definition]:
    rows: tuple[Definition, ...] = import_module(f"{__name__}.{name}").DEFINITIONS
    return {definition.name: definition for definition in rows}


class _BrokerDefinitions(Mapping[str, Definition]):
    def __getitem__(self, key: str) -> Definition:
        for name in self._tables_for(key):
            if definition := table(name).get(key):
                return definition
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        for name in _BROKER_TABLES:
            yield from table(name)

    def __len__(self) -> int:
        return sum(len(table(name)) for name in _BROKER_TABLES)

    def _tables_for(self, key: str) -> tuple[str, ...]:
        for prefix, name in _TABLE_OF_PREFIX.items():
            if key.startswith(prefix):
                return (name,)
        return _BROKER_TABLES


BROKER: Mapping[str, Definition] = _BrokerDefinitions()


def topic_definitions() -> dict[str, Definition]:
    return table("topic")


def group_definitions() -> dict[str, Definition]:
    return table("group")


def client_metrics_definitions() -> dict[str, Definition]:
    return table("client_metrics")


def dynamic_only_definitions() -> dict[str, Definition]:
    """Keys of a broker that cannot stand in its file, only be set while it runs."""
    return table("throttles")
