"""A share group's partitions are initialized and deleted at the share coordinator, and the group is told."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.core.groups.share.decide import ToInitialize
from barnabas.core.share.records import ShareKey
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

log = logging.getLogger("barnabas.shares")
NOT_DECIDED = -1


async def initialize(node: Shares, wanted: ToInitialize) -> None:
    """What cannot be initialized now is tried again by a later heartbeat."""
    group_id = wanted.group_id
    node.groups.led_for(group_id).shard.members.share.began_to_initialize(group_id, wanted.partitions)
    ready: dict[Uuid, frozenset[int]] = {}
    for topic_id, partitions in wanted.partitions.items():
        for partition in sorted(partitions):
            start_offset = wanted.start_offsets.get((topic_id, partition), NOT_DECIDED)
            try:
                await node.persister.initialize(ShareKey(group_id, topic_id, partition), wanted.epoch, start_offset)
            except KafkaError as error:
                log.warning("share group %s: %s-%d is not initialized yet: %s", group_id, topic_id, partition, error)
                continue
            ready[topic_id] = ready.get(topic_id, frozenset()) | {partition}
    try:
        await node.groups.submit(group_id, lambda shard: shard.members.share.initialized(group_id, ready))
    except KafkaError as error:
        log.warning("share group %s: its initialized partitions could not be noted: %s", group_id, error)


async def delete_states(node: Shares, group_id: str, partitions: Mapping[Uuid, Iterable[int]]) -> None:
    for topic_id, listed in partitions.items():
        for partition in sorted(listed):
            await node.persister.delete(ShareKey(group_id, topic_id, partition))
