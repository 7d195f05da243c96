"""How a consumer reads and how it is a member of its group, in Kafka's property names and with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from barnabas.client.assignors import ASSIGNORS, COOPERATIVE, JAVA_NAMES
from barnabas.client.errors import InvalidSetting
from barnabas.client.fetcher import FetchSettings
from barnabas.client.properties import boolean, integer, listed, one_of

RESETS = ("earliest", "latest", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    group_id: str = ""
    group_instance_id: str | None = None
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    offset_reset: str = "latest"
    check_crcs: bool = True
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    fetch: FetchSettings = field(default_factory=FetchSettings)

    @property
    def cooperative(self) -> bool:
        """Whether partitions are kept through a rebalance: only if every assignor that may be chosen allows it."""
        return COOPERATIVE.issuperset(self.assignors)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        group_id = properties.get("group.id", "")
        session_timeout_ms = integer(properties, "session.timeout.ms", 45_000, least=1)
        heartbeat_interval_ms = integer(properties, "heartbeat.interval.ms", 3_000, least=1)
        if heartbeat_interval_ms >= session_timeout_ms:
            raise InvalidSetting("heartbeat.interval.ms", "must be below session.timeout.ms.")
        if one_of(properties, "group.protocol", "classic", ("classic", "consumer")) == "consumer":
            raise InvalidSetting("group.protocol", "is consumer, which is not spoken here: use classic.")
        return cls(
            group_id=group_id,
            group_instance_id=properties.get("group.instance.id") or None,
            assignors=_assignors(properties),
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            max_poll_interval_ms=integer(properties, "max.poll.interval.ms", 300_000, least=1),
            max_poll_records=integer(properties, "max.poll.records", 500, least=1),
            auto_commit=boolean(properties, "enable.auto.commit", True),
            auto_commit_interval_ms=integer(properties, "auto.commit.interval.ms", 5_000),
            offset_reset=one_of(properties, "auto.offset.reset", "latest", RESETS),
            check_crcs=boolean(properties, "check.crcs", True),
            exclude_internal_topics=boolean(properties, "exclude.internal.topics", True),
            allow_auto_create_topics=boolean(properties, "allow.auto.create.topics", True),
            fetch=FetchSettings.from_properties(properties),
        )


def _assignors(properties: Mapping[str, str]) -> tuple[str, ...]:
    name = "partition.assignment.strategy"
    given = listed(properties, name) or ["range", "cooperative-sticky"]
    found = []
    for each in given:
        assignor = JAVA_NAMES.get(each.rpartition(".")[2], each)
        if assignor not in ASSIGNORS:
            raise InvalidSetting(name, f"names {each}; known here are {', '.join(ASSIGNORS)}.")
        found.append(assignor)
    return tuple(dict.fromkeys(found))
