"""The group coordinator of this node: the partitions of __consumer_offsets that it leads."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import CONSUMER_OFFSETS_TOPIC
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.shard import GroupShard
from barnabas.core.metadata.state import MetadataDelta
from barnabas.node.configuration import BrokerConfig
from barnabas.node.coordinators.coordinator import Coordinator

if TYPE_CHECKING:
    from barnabas.node.node import Node

MS_PER_MINUTE = 60_000


class GroupCoordinator(Coordinator[GroupShard]):
    def __init__(self, node: Node) -> None:
        super().__init__(node, CONSUMER_OFFSETS_TOPIC, self._new_shard)
        self._settings_of: tuple[BrokerConfig, GroupSettings] | None = None

    def settings(self) -> GroupSettings:
        """As the broker's configuration is now."""
        config = self._node.config
        if self._settings_of is None or self._settings_of[0] is not config:
            self._settings_of = (config, group_settings(config))
        return self._settings_of[1]

    def apply(self, delta: MetadataDelta) -> None:
        super().apply(delta)
        deleted = {topic.name for topic in delta.deleted_topics} - {self.topic}
        if deleted:
            for led in self:
                led.submit(lambda shard: shard.topics_deleted(deleted))

    def _new_shard(self, index: int, timers: Timers) -> GroupShard:
        place = (index + 1) / max(self._node.config.offsets_topic_num_partitions, index + 1)
        return GroupShard(timers, self.settings, self._node.clock, lambda: str(uuid.uuid4()), place)


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
