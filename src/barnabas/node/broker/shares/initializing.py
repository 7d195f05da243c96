"""A share group's partitions are initialized and deleted at the share coordinator, and the group is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.groups.share.decide import ToInitialize
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares.persister import NOT_DECIDED, ask_until_settled
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

log = logging.getLogger("barnabas.shares")
AT_A_TIME = 50


async def initialize(node: Shares, wanted: ToInitialize) -> None:
    """What cannot be initialized after all is tried again at the next heartbeat.

    Nothing is asked again once another broker coordinates the group, or the group has been deleted: a state that is
    initialized late begins anew, or is left behind."""
    group_id = wanted.group_id
    led = node.groups.led_for(group_id)
    led.shard.members.share.began_to_initialize(group_id, wanted.partitions)
    ready: dict[Uuid, frozenset[int]] = {}
    failed: set[Uuid] = set()

    def is_wanted(key: ShareKey) -> bool:
        try:
            return node.groups.led_for(group_id) is led and led.shard.members.share.is_initializing(*key)
        except KafkaError:
            return False

    async def begin(key: ShareKey) -> bool:
        start_offset = wanted.start_offsets.get((key.topic_id, key.partition), NOT_DECIDED)
        try:
            initialize_state = partial(node.persister.initialize, key, wanted.epoch, start_offset)
            await ask_until_settled(initialize_state, partial(is_wanted, key))
        except KafkaError as error:
            log.warning("share group %s: %s-%d is not initialized yet: %s", *key, error)
            return False
        return True

    for topic_id, partitions in wanted.partitions.items():
        keys = [ShareKey(group_id, topic_id, partition) for partition in sorted(partitions)]
        for first in range(0, len(keys), AT_A_TIME):
            asked = keys[first : first + AT_A_TIME]
            begun = await asyncio.gather(*map(begin, asked))
            done = frozenset(key.partition for key, has_begun in zip(asked, begun, strict=True) if has_begun)
            if done:
                ready[topic_id] = ready.get(topic_id, frozenset()) | done
            if not all(begun):
                failed.add(topic_id)
                break
    led.shard.members.share.failed_to_initialize(group_id, failed)
    try:
        await node.groups.submit(group_id, lambda shard: shard.members.share.initialized(group_id, ready))
    except KafkaError as error:
        log.warning("share group %s: could not record which partitions are initialized: %s", group_id, error)


async def delete_states(node: Shares, group_id: str, partitions: Mapping[Uuid, Iterable[int]]) -> None:
    for topic_id, listed in partitions.items():
        for partition in sorted(listed):
            await node.persister.delete(ShareKey(group_id, topic_id, partition))
