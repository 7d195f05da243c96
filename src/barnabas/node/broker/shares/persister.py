"""What is known of share partitions, at the share coordinator: here, or on another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from barnabas.client.backoff import Backoff
from barnabas.client.errors import ClientError
from barnabas.client.peer import Peer
from barnabas.core.share.batches import StateBatch
from barnabas.core.share.records import ShareKey
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import delete_share_group_state as deletion
from barnabas.wire.messages import initialize_share_group_state as initialization
from barnabas.wire.messages import read_share_group_state as reading
from barnabas.wire.messages import read_share_group_state_summary as summaries
from barnabas.wire.messages import write_share_group_state as writing
from barnabas.wire.schema import Request

if TYPE_CHECKING:
    from barnabas.node.broker.replication.peers import Peers
    from barnabas.node.broker.shares.coordinator import ShareCoordinator


RETRIED_FOR_S = 10.0
BACKOFF_MS, BACKOFF_MAX_MS = 50, 1_000
# The start offset of a partition from which nobody has read yet.
NOT_DECIDED = -1
# The coordinator is about to be another one, or does not know the topic yet.
PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

Result = TypeVar("Result")


async def ask_until_settled(ask: Callable[[], Awaitable[Result]], is_wanted: Callable[[], bool]) -> Result:
    """Asks again while the error is one that passes, the answer is still wanted, and for a limited time."""
    loop, backoff = asyncio.get_running_loop(), Backoff(BACKOFF_MS, BACKOFF_MAX_MS)
    until = loop.time() + RETRIED_FOR_S
    while True:
        try:
            return await ask()
        except KafkaError as error:
            if error.code not in PASSING or loop.time() > until or not is_wanted():
                raise
        await asyncio.sleep(backoff.fail())
        if not is_wanted():
            raise KafkaError(ErrorCode.NOT_COORDINATOR)


class Known(NamedTuple):
    """Of a share partition; a start offset of -1 is not decided yet."""

    state_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()
    leader_epoch: int = 0
    delivery_complete_count: int = -1


class Persister:
    def __init__(self, node_id: int, coordinator: ShareCoordinator, peers: Peers) -> None:
        self._node_id = node_id
        self._coordinator = coordinator
        self._peers = peers
        self._open: dict[int, Peer] = {}

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        await self._coordinator.create_topic()
        if self._is_here(key):
            await self._coordinator.submit(
                key.coordinator_key, lambda shard: shard.initialize(key, state_epoch, start_offset)
            )
            return
        part = initialization.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start_offset)
        data = initialization.InitializeStateData(topic_id=key.topic_id, partitions=[part])
        await self._ask(key, initialization.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[data]))

    async def read(self, key: ShareKey, leader_epoch: int) -> Known:
        if self._is_here(key):
            state = await self._coordinator.submit(key.coordinator_key, lambda shard: shard.read(key, leader_epoch))
            return Known(state.state_epoch, state.start_offset, state.batches)
        part = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        data = reading.ReadStateData(topic_id=key.topic_id, partitions=[part])
        found = await self._ask(key, reading.ReadShareGroupStateRequest(group_id=key.group_id, topics=[data]))
        batches = (
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        )
        return Known(found.state_epoch, found.start_offset, tuple(batches))

    async def write(
        self,
        key: ShareKey,
        known: Known,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        """`known` says in which epochs of state and leader."""
        if self._is_here(key):
            await self._coordinator.submit_at_once(
                key.coordinator_key,
                lambda shard: shard.write(
                    key, known.state_epoch, known.leader_epoch, start_offset, delivery_complete_count, batches
                ),
            )
            return
        part = writing.PartitionData(
            partition=key.partition,
            state_epoch=known.state_epoch,
            leader_epoch=known.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[writing.StateBatch(**each._asdict()) for each in batches],
        )
        data = writing.WriteStateData(topic_id=key.topic_id, partitions=[part])
        await self._ask(key, writing.WriteShareGroupStateRequest(group_id=key.group_id, topics=[data]))

    async def delete(self, key: ShareKey) -> None:
        if self._is_here(key):
            await self._coordinator.submit(key.coordinator_key, lambda shard: shard.delete(key))
            return
        data = deletion.DeleteStateData(
            topic_id=key.topic_id, partitions=[deletion.PartitionData(partition=key.partition)]
        )
        await self._ask(key, deletion.DeleteShareGroupStateRequest(group_id=key.group_id, topics=[data]))

    async def summary(self, key: ShareKey) -> Known:
        if self._is_here(key):
            state = self._coordinator.shard_for(key.coordinator_key).summary(key)
            if state is None:
                return Known(0, NOT_DECIDED)
            return Known(state.state_epoch, state.start_offset, (), state.leader_epoch, state.delivery_complete_count)
        part = summaries.PartitionData(partition=key.partition, leader_epoch=-1)
        data = summaries.ReadStateSummaryData(topic_id=key.topic_id, partitions=[part])
        found = await self._ask(key, summaries.ReadShareGroupStateSummaryRequest(group_id=key.group_id, topics=[data]))
        return Known(found.state_epoch, found.start_offset, (), found.leader_epoch, found.delivery_complete_count)

    # Elsewhere

    def _is_here(self, key: ShareKey) -> bool:
        return self._coordinator.leader_of(key.coordinator_key) == self._node_id

    async def _ask(self, key: ShareKey, request: Request) -> Any:
        """The result of the one partition asked about; raises its error."""
        leader_id = self._coordinator.leader_of(key.coordinator_key)
        address = self._peers.address_of(leader_id)
        if address is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"Broker {leader_id} is not known.")
        peer = self._open.get(leader_id)
        if peer is None or peer.address != address:
            peer = self._open[leader_id] = self._peers.open(address, "share-persister", negotiate=True)
        try:
            answer = await peer.send(request)
        except ClientError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        result = answer.results[0].partitions[0]
        if result.error_code:
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
        return result

    async def close(self) -> None:
        for peer in self._open.values():
            await peer.close()
        self._open.clear()


class ForgetfulPersister(Persister):
    """With an empty `group.share.persister.class.name`: states live as long as the leader of their partition."""

    async def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> None:
        return

    async def read(self, key: ShareKey, leader_epoch: int) -> Known:
        return Known(0, NOT_DECIDED)

    async def write(
        self,
        key: ShareKey,
        known: Known,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> None:
        return

    async def delete(self, key: ShareKey) -> None:
        return

    async def summary(self, key: ShareKey) -> Known:
        return Known(0, NOT_DECIDED)


def make_persister(class_name: str, node_id: int, coordinator: ShareCoordinator, peers: Peers) -> Persister:
    kind = Persister if class_name else ForgetfulPersister
    return kind(node_id, coordinator, peers)
