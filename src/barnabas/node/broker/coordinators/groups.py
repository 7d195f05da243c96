"""The group coordinator of this node: the partitions of __consumer_offsets that it leads."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import CONSUMER_OFFSETS_TOPIC
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.consumer.assignors import ASSIGNORS
from barnabas.core.groups.consumer.settings import ConsumerSettings, MigrationPolicy
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.shard import GroupShard
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.core.metadata.state import MetadataDelta
from barnabas.node.broker.coordinators.coordinator import Coordinator
from barnabas.node.broker.group_settings import GroupSettingsCache, own_values
from barnabas.node.broker.shares.settings import share_settings
from barnabas.node.configuration import BrokerConfig

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinating

MS_PER_MINUTE = 60_000


class GroupCoordinator(Coordinator[GroupShard]):
    def __init__(self, node: Coordinating) -> None:
        super().__init__(
            node, CONSUMER_OFFSETS_TOPIC, self._new_shard, write_timeout_ms=node.config.offsets_commit_timeout_ms
        )
        self._settings_of: tuple[BrokerConfig, GroupSettings] | None = None
        self.consumer_settings = GroupSettingsCache(node, consumer_settings).of
        self.share_settings = GroupSettingsCache(node, share_settings).of
        self.streams_settings = GroupSettingsCache(node, streams_settings).of

    def settings(self) -> GroupSettings:
        """As the broker's configuration is now."""
        config = self._node.config
        if self._settings_of is None or self._settings_of[0] is not config:
            self._settings_of = (config, group_settings(config))
        return self._settings_of[1]

    def apply(self, delta: MetadataDelta) -> None:
        super().apply(delta)
        changed = {state.topic for state in delta.partitions} | {topic.name for topic in delta.deleted_topics}
        if changed:
            for led in self:
                led.shard.topics_changed(changed, created=bool(delta.created_topics))
        deleted = {topic.name for topic in delta.deleted_topics} - {self.topic}
        if deleted:
            for led in self:
                led.submit(lambda shard: shard.topics_deleted(deleted))

    def _new_shard(self, index: int, timers: Timers) -> GroupShard:
        place = (index + 1) / max(self._node.config.offsets_topic_num_partitions, index + 1)
        return GroupShard(
            timers,
            self.settings,
            self._node.clock,
            lambda: str(uuid.uuid4()),
            place,
            image=lambda: self._node.image,
            consumer_settings=self.consumer_settings,
            share_settings=self.share_settings,
            streams_settings=self.streams_settings,
        )


def consumer_settings(config: BrokerConfig, own: Mapping[str, str]) -> ConsumerSettings:
    """`own` are the configs of a group."""
    values = own_values(config, own)

    def number(key: str, otherwise: int) -> int:
        value = values.get(key, otherwise)
        return value if isinstance(value, int) else otherwise

    assignors = tuple(name for name in config.group_consumer_assignors if name in ASSIGNORS)
    return ConsumerSettings(
        session_timeout_ms=number("consumer.session.timeout.ms", config.group_consumer_session_timeout_ms),
        heartbeat_interval_ms=number("consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms),
        assignment_interval_ms=number("consumer.assignment.interval.ms", config.group_consumer_assignment_interval_ms),
        max_size=config.group_consumer_max_size,
        assignors=assignors or tuple(ASSIGNORS),
        migration_policy=MigrationPolicy(config.group_consumer_migration_policy.lower()),
        regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
    )


def streams_settings(config: BrokerConfig, own: Mapping[str, str]) -> StreamsSettings:
    """`own` are the configs of a group."""
    values = own_values(config, own)

    def number(key: str, otherwise: int) -> int:
        value = values.get(f"streams.{key}", otherwise)
        return value if isinstance(value, int) else otherwise

    return StreamsSettings(
        session_timeout_ms=number("session.timeout.ms", config.group_streams_session_timeout_ms),
        heartbeat_interval_ms=number("heartbeat.interval.ms", config.group_streams_heartbeat_interval_ms),
        assignment_interval_ms=number("assignment.interval.ms", config.group_streams_assignment_interval_ms),
        initial_rebalance_delay_ms=number(
            "initial.rebalance.delay.ms", config.group_streams_initial_rebalance_delay_ms
        ),
        num_standby_replicas=number("num.standby.replicas", config.group_streams_num_standby_replicas),
        max_size=config.group_streams_max_size,
    )


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * MS_PER_MINUTE,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
    )
