"""Topics that come into being because somebody asks for them: how they are made by default.

The internal ones have partitions, replicas and configs of their own, the same as Kafka gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.core.controller.topic_names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

BrokerValue = Callable[[str], object]


class _Template(NamedTuple):
    """The broker's keys that say how many, and the topic's configs: given, or taken from a key of the broker."""

    partitions: str
    replication_factor: str
    configs: dict[str, str]
    configs_from_broker: dict[str, str]


_ORDINARY = _Template("num.partitions", "default.replication.factor", {}, {})
_INTERNAL = {
    CONSUMER_OFFSETS_TOPIC: _Template(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        {"compression.type": "producer", "cleanup.policy": "compact"},
        {"segment.bytes": "offsets.topic.segment.bytes"},
    ),
    TRANSACTION_STATE_TOPIC: _Template(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        {"compression.type": "uncompressed", "cleanup.policy": "compact", "unclean.leader.election.enable": "false"},
        {
            "min.insync.replicas": "transaction.state.log.min.isr",
            "segment.bytes": "transaction.state.log.segment.bytes",
        },
    ),
    SHARE_GROUP_STATE_TOPIC: _Template(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        {"compression.type": "producer", "cleanup.policy": "delete", "retention.ms": "-1"},
        {
            "min.insync.replicas": "share.coordinator.state.topic.min.isr",
            "segment.bytes": "share.coordinator.state.topic.segment.bytes",
        },
    ),
}


def automatic_topic(name: str, broker_value: BrokerValue) -> CreatableTopic:
    template = _INTERNAL.get(name, _ORDINARY)
    configs = template.configs | {
        config: str(broker_value(key)) for config, key in template.configs_from_broker.items()
    }
    return CreatableTopic(
        name=name,
        num_partitions=_number(broker_value(template.partitions)),
        replication_factor=_number(broker_value(template.replication_factor)),
        configs=[CreatableTopicConfig(name=config, value=value) for config, value in configs.items()],
    )


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
