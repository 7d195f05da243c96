"""What counts for a share group: the broker's keys, and the configs that the group has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.core.groups.share.decide import ShareSettings
from barnabas.node.broker.group_settings import own_values
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.definition import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    lock_duration_ms: int = 30_000
    most_deliveries: int = 5
    most_in_flight: int = 2_000
    offset_reset: str = "latest"
    read_committed: bool = False
    may_renew: bool = True


def share_settings(config: BrokerConfig, own: Mapping[str, str]) -> ShareSettings:
    values = own_values(config, own)
    return ShareSettings(
        session_timeout_ms=_number(values, "share.session.timeout.ms", config.group_share_session_timeout_ms),
        heartbeat_interval_ms=_number(values, "share.heartbeat.interval.ms", config.group_share_heartbeat_interval_ms),
        assignment_interval_ms=_number(
            values, "share.assignment.interval.ms", config.group_share_assignment_interval_ms
        ),
        max_size=config.group_share_max_size,
        initialize_retry_ms=config.group_share_initialize_retry_interval_ms,
    )


def delivery_settings(config: BrokerConfig, own: Mapping[str, str]) -> DeliverySettings:
    values = own_values(config, own)
    return DeliverySettings(
        lock_duration_ms=_number(values, "share.record.lock.duration.ms", config.group_share_record_lock_duration_ms),
        most_deliveries=_number(values, "share.delivery.count.limit", config.group_share_delivery_count_limit),
        most_in_flight=_number(
            values, "share.partition.max.record.locks", config.group_share_partition_max_record_locks
        ),
        offset_reset=str(values.get("share.auto.offset.reset", "latest")),
        read_committed=values.get("share.isolation.level") == "read_committed",
        may_renew=values.get("share.renew.acknowledge.enable", True) is True,
    )


def _number(values: Mapping[str, Value], key: str, otherwise: int) -> int:
    value = values.get(key, otherwise)
    return value if isinstance(value, int) else otherwise
