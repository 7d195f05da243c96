"""The topics of an example: declared in its file, and created when it starts if they are not there yet.

In a company a topic is made by hand or by a deployment, because its partitions and its retention are decisions. Here
they stand in the example that needs them, where they can be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from barnabas.client.cluster import Cluster
from barnabas.client.settings import ClientSettings
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

TOPIC_EXISTS = 36
COMPACTED = {"cleanup.policy": "compact"}  # the last record of each key, for ever
FOR_EVER = {"retention.ms": "-1"}


@dataclass(frozen=True)
class Topic:
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


def kept(time: timedelta) -> dict[str, str]:
    """Records go after this time; a segment is as old as its youngest record, so segments must be shorter."""
    retention_ms = round(time.total_seconds() * 1000)
    return {"retention.ms": str(retention_ms), "segment.ms": str(retention_ms // 6)}


def brokers() -> str:
    """Those that `barnabas pipeline run --bootstrap-server` names, or who has set the variable."""
    return os.environ.get("BARNABAS_BOOTSTRAP_SERVERS", "localhost:9092")


def create_topics(topics: Iterable[Topic]) -> None:
    """Those that are missing; those that are there are left as they are."""
    wanted = [
        CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=-1,  # what the brokers have as default.replication.factor: 3 where it matters
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )
        for topic in topics
    ]
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": brokers()})) as cluster:
        answers = cluster.ask_controller(CreateTopicsRequest(topics=wanted, timeout_ms=30_000)).topics
    for answer in answers:
        if answer.error_code not in (0, TOPIC_EXISTS):
            raise RuntimeError(f"topic {answer.name} can't be created: {answer.error_message}")
