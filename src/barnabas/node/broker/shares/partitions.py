"""The share partitions that this node serves: made when somebody first fetches, dropped when a group has gone."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from barnabas.core.share.partition import SharePartition
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.group_settings import GroupSettingsCache
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.shares.offset_reset import reset_offset
from barnabas.node.broker.shares.persister import Persister
from barnabas.node.broker.shares.served import ServedPartition
from barnabas.node.broker.shares.sessions import ShareSessions
from barnabas.node.broker.shares.settings import delivery_settings
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Logs


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SharePartitions:
    def __init__(self, node: Logs, persister: Persister) -> None:
        self._node = node
        self._persister = persister
        self._served: dict[ShareKey, ServedPartition] = {}
        self._coming: dict[ShareKey, asyncio.Future[ServedPartition]] = {}
        self.settings = GroupSettingsCache(node, delivery_settings).of
        self.sessions = ShareSessions(lambda: node.config.group_share_max_share_sessions, self.session_ended)

    def leading(self, key: ShareKey) -> Partition:
        """The partition of the log; raises the error of one that this node does not lead."""
        image = self._node.image
        topic = image.topic_names.get(key.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._node.partitions.get(topic, key.partition)
        if partition is None:
            raise KafkaError(self._node.partitions.missing_error(image, topic, key.partition))
        partition.require_available()
        return partition

    def find(self, key: ShareKey) -> ServedPartition | None:
        """One that is served already."""
        served = self._served.get(key)
        if served is not None and not served.is_current:
            self._drop(key)
            return None
        return served

    async def serve(self, key: ShareKey) -> ServedPartition:
        self.leading(key)
        served = self.find(key)
        if served is not None:
            return served
        coming = self._coming.get(key)
        if coming is None:
            coming = self._coming[key] = asyncio.ensure_future(self._load(key))
            coming.add_done_callback(lambda _: self._coming.pop(key, None))
        return await asyncio.shield(coming)

    async def _load(self, key: ShareKey) -> ServedPartition:
        partition = self.leading(key)
        leader_epoch = partition.leader_epoch
        known = await self._persister.read(key, leader_epoch)
        start_offset = known.start_offset
        if start_offset < 0:
            settings = self.settings(key.group_id)
            start_offset = await reset_offset(self._node, partition, settings.offset_reset, settings.read_committed)
        if self.leading(key) is not partition or partition.leader_epoch != leader_epoch:
            # Somebody else may have led in between and written more than was read.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        known = known._replace(leader_epoch=leader_epoch)
        state = SharePartition(start_offset, known.batches)
        served = ServedPartition(
            key, partition, known, state, self._persister, lambda: self.settings(key.group_id), monotonic_ms
        )
        self._served[key] = served
        return served

    # Letting go

    def session_ended(self, group_id: str, member_id: str) -> None:
        """Whatever the member has is free again; a group that nobody fetches for is forgotten."""
        for served in [each for key, each in self._served.items() if key.group_id == group_id]:
            served.run(served.release(member_id))
        if not self.sessions.has_group(group_id):
            asyncio.get_running_loop().call_soon(self._forget_group, group_id)

    def _forget_group(self, group_id: str) -> None:
        if not self.sessions.has_group(group_id):
            for key in [key for key in self._served if key.group_id == group_id]:
                self._drop(key)

    def _drop(self, key: ShareKey) -> None:
        served = self._served.pop(key, None)
        if served is not None:
            served.lose()

    async def stop(self) -> None:
        for key in list(self._served):
            self._drop(key)
        await self._persister.close()
