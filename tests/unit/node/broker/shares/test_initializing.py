"""States of share partitions are initialized while their coordinator moves, and the group goes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.share.records import ShareKey
from barnabas.node.broker.shares import persister
from barnabas.node.broker.shares.initializing import delete_states, initialize
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.core.groups.consumer.consumers import cluster
from tests.unit.core.groups.stage import Stage


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "BACKOFF_MS", 1)
    monkeypatch.setattr(persister, "BACKOFF_MAX_MS", 1)


class MovingCoordinator:
    """Refuses what is asked first."""

    def __init__(self) -> None:
        self.states: set[ShareKey] = set()
        self.has_refused = asyncio.Event()

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        if not self.has_refused.is_set():
            self.has_refused.set()
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        self.states.add(key)

    async def delete(self, key: ShareKey) -> None:
        self.states.discard(key)


def test_a_state_of_a_group_that_was_deleted_meanwhile_is_not_left_behind() -> None:
    stage = Stage(cluster=cluster(a=1))

    def beat(epoch: int, topics: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id="anna", member_epoch=epoch, subscribed_topic_names=topics
        )
        return stage.run(lambda shard: shard.members.share_heartbeat(request, "client", "/host")).result()

    async def story() -> None:
        coordinator = MovingCoordinator()

        async def submit(group_id: str, operation: Any) -> Any:
            return stage.run(operation).result()

        led = SimpleNamespace(shard=stage.shard)
        groups = SimpleNamespace(led_for=lambda group_id: led, submit=submit)
        node: Any = SimpleNamespace(groups=groups, persister=coordinator)
        initializing = asyncio.ensure_future(initialize(node, beat(0, ["a"]).to_initialize))
        await coordinator.has_refused.wait()
        beat(-1, None)
        gone = await submit("g", lambda shard: shard.members.begin_deletion("g", None))
        await delete_states(node, "g", gone)
        await submit("g", lambda shard: shard.delete_group("g"))
        await initializing
        assert coordinator.states == set()

    asyncio.run(story())
