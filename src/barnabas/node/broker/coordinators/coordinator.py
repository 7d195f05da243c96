"""A coordinator of this node: the partitions of an internal topic that it leads, each with a shard.

`apply` follows the committed metadata: a partition that begins to be led is loaded, one that ends to be is given up.
The topic itself is made when somebody first asks for a coordinator.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.partitioning import partition_for
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.runtime import Shard
from barnabas.core.coordinator.timers import Timers
from barnabas.core.metadata.state import MetadataDelta, PartitionState
from barnabas.node.broker.coordinators.shard import LedShard
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinating

T = TypeVar("T")
S = TypeVar("S", bound=Shard)


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Coordinator(Generic[S]):
    def __init__(
        self,
        node: Coordinating,
        topic: str,
        make_shard: Callable[[int, Timers], S],
        timer_clock: Callable[[], int] = monotonic_ms,
        write_timeout_ms: int | None = None,
    ) -> None:
        """`make_shard` is given the index of the partition and the timers to use."""
        self._write_timeout_ms = write_timeout_ms
        self.topic = topic
        self._node = node
        self._make_shard = make_shard
        self._timer_clock = timer_clock
        self._led: dict[int, LedShard[S]] = {}
        self._creation: asyncio.Future[None] | None = None

    # Following the metadata

    def start(self) -> None:
        topic = self._node.image.topics.get(self.topic)
        if topic is not None:
            for state in topic.partitions.values():
                self._apply(state)

    def apply(self, delta: MetadataDelta) -> None:
        for topic in delta.deleted_topics:
            if topic.name == self.topic:
                for index in list(self._led):
                    self._led.pop(index).lose()
        for state in delta.partitions:
            if state.topic == self.topic:
                self._apply(state)

    def _apply(self, state: PartitionState) -> None:
        partition = self._node.partitions.get(self.topic, state.index)
        led = self._led.get(state.index)
        if led is not None:
            if led.partition is partition and partition.is_leader and led.leader_epoch == partition.leader_epoch:
                return
            led.lose()
            del self._led[state.index]
        if partition is not None and partition.is_leader and not partition.log.offline:
            shard = self._make_shard(state.index, Timers(self._timer_clock))
            led = self._led[state.index] = LedShard(partition, shard, self._node.clock, self._write_timeout_ms)
            led.load()

    async def stop(self) -> None:
        """Whoever waits looks for another coordinator."""
        for led in self._led.values():
            led.write()
            led.lose()
        self._led.clear()

    # Finding

    async def create_topic(self) -> None:
        """Makes the internal topic unless it is there; those who come meanwhile wait for the same creation."""
        if self._creation is None:
            if self.topic in self._node.image.topics:
                return
            self._creation = asyncio.ensure_future(self._create_topic())
        await asyncio.shield(self._creation)

    async def _create_topic(self) -> None:
        try:
            await self._node.automatic_topics.create([self.topic])
        finally:
            self._creation = None

    def partition_for(self, key: str) -> int:
        topic = self._node.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} does not exist yet.")
        return partition_for(key, len(topic.partitions))

    def leader_of(self, key: str) -> int:
        """The node that coordinates the key; raises COORDINATOR_NOT_AVAILABLE if there is none."""
        topic = self._node.image.topics.get(self.topic)
        state = None if topic is None else topic.partitions.get(self.partition_for(key))
        if state is None or state.leader < 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self.topic} has no leader for '{key}'.")
        return state.leader

    def led(self, index: int) -> LedShard[S]:
        """The shard of a partition, loaded; raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        led = self._led.get(index)
        if led is None:
            # The metadata may know already that we lead, and the partition be about to follow.
            topic = self._node.image.topics.get(self.topic)
            state = topic.partitions.get(index) if topic is not None else None
            leads = state is not None and state.leader == self._node.node_id
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if leads else ErrorCode.NOT_COORDINATOR)
        led.require_loaded()
        return led

    def led_for(self, key: str) -> LedShard[S]:
        topic = self._node.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self.led(partition_for(key, len(topic.partitions)))

    def shard_for(self, key: str) -> S:
        """To read from; what it says of committed state needs no waiting."""
        return self.led_for(key).shard

    @property
    def is_loading(self) -> bool:
        return any(not led.is_loaded for led in self._led.values())

    def __iter__(self) -> Iterator[LedShard[S]]:
        """The shards that are loaded."""
        return (led for led in list(self._led.values()) if led.is_loaded)

    # Deciding

    async def submit(self, key: str, operation: Callable[[S], Decision[T]]) -> T:
        """Runs the operation on the key's shard; returns or raises what it decided once that is committed."""
        answer = self.led_for(key).answer(operation)
        return await result_of(answer) if isinstance(answer, Promise) else answer

    async def submit_at_once(self, key: str, operation: Callable[[S], Decision[T]]) -> T:
        """As `submit`; nothing is waited for that this node can do by itself."""
        answer = self.led_for(key).submit_at_once(operation)
        return await result_of(answer) if isinstance(answer, Promise) else answer

    async def submit_to(self, index: int, operation: Callable[[S], Decision[T]]) -> T:
        return await result_of(self.led(index).submit(operation))


async def result_of(promise: Promise[T]) -> T:
    """Waits for a promise of the core; does not wait if it is kept already."""
    if promise.is_done:
        return promise.result()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    promise.then(lambda _: None if future.done() else future.set_result(None))
    await future
    return promise.result()
