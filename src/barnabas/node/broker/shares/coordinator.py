"""The share coordinator of this node: the partitions of __share_group_state that it leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import SHARE_GROUP_STATE_TOPIC
from barnabas.core.coordinator.timers import Timers
from barnabas.core.share.records import ShareKey
from barnabas.core.share.shard import ShareStateShard
from barnabas.node.broker.coordinators.coordinator import Coordinator
from barnabas.node.broker.shares.pruning import prune_regularly

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinating


class ShareCoordinator(Coordinator[ShareStateShard]):
    def __init__(self, node: Coordinating) -> None:
        timeout_ms = node.config.share_coordinator_write_timeout_ms
        super().__init__(node, SHARE_GROUP_STATE_TOPIC, self._new_shard, write_timeout_ms=timeout_ms)
        self._pruning: asyncio.Task[None] | None = None

    def start(self) -> None:
        super().start()
        interval_ms = self._node.config.share_coordinator_state_topic_prune_interval_ms
        self._pruning = asyncio.ensure_future(prune_regularly(self, interval_ms))

    async def stop(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
        await super().stop()

    def _new_shard(self, index: int, timers: Timers) -> ShareStateShard:
        return ShareStateShard(
            timers,
            self._node.clock,
            self._exists,
            lambda: self._node.config.share_coordinator_snapshot_update_records_per_snapshot,
        )

    def _exists(self, key: ShareKey) -> bool:
        topic = self._node.image.topic_by_id(key.topic_id)
        return topic is not None and key.partition in topic.partitions
