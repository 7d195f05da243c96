"""Which share partitions are served: those whose state was read in the epoch in which the node leads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares.partitions import SharePartitions
from barnabas.node.broker.shares.persister import Known
from barnabas.wire.errors import KafkaError
from barnabas.wire.uuids import Uuid

KEY = ShareKey("g", Uuid(b"t" * 16), 0)


class SlowCoordinator:
    """Answers a read when it is told to; what it knows then is of the moment at which it was asked."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.epochs_read: list[int] = []
        self.may_answer = asyncio.Event()

    async def read(self, key: ShareKey, leader_epoch: int) -> Known:
        self.epochs_read.append(leader_epoch)
        known = Known(1, self.start_offset)
        await self.may_answer.wait()
        return known


def node_with(partition: Any) -> Any:
    return SimpleNamespace(
        image=SimpleNamespace(topic_names={KEY.topic_id: "orders"}),
        partitions=SimpleNamespace(get=lambda topic, index: partition),
        config=SimpleNamespace(group_share_max_share_sessions=10),
    )


def test_a_state_that_was_read_before_somebody_else_led_is_not_served() -> None:
    async def story() -> None:
        partition = SimpleNamespace(is_gone=False, is_leader=True, leader_epoch=5, require_available=lambda: None)
        coordinator: Any = SlowCoordinator()
        serving = SharePartitions(node_with(partition), coordinator)
        asked = asyncio.ensure_future(serving.serve(KEY))
        await asyncio.sleep(0.01)
        # Another broker leads in epoch 6 and is done with ten records; then this one leads again.
        coordinator.start_offset = 10
        partition.leader_epoch = 7
        coordinator.may_answer.set()
        with pytest.raises(KafkaError, match="NOT_LEADER_OR_FOLLOWER"):
            await asked
        served = await serving.serve(KEY)
        assert (served.state.start_offset, served.is_current) == (10, True)
        assert coordinator.epochs_read == [5, 7]

    asyncio.run(story())
