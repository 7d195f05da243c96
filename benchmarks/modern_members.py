"""Members of groups whose coordinator assigns (KIP-848, KIP-932), which speak the protocol themselves.

All live on one event loop, each with a connection of its own. A member of a consumer group confirms what it was given
or gave back with its next heartbeat, which follows at once. A member of a share group acknowledges what it has taken
with its next fetch, as Kafka's consumer does.
"""

import asyncio
import time
from collections.abc import Callable

from barnabas.client.exchange import request_frame
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from barnabas.wire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedBatch
from barnabas.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from barnabas.wire.messages.share_fetch import AcknowledgementBatch, FetchPartition, FetchTopic, ShareFetchRequest
from barnabas.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from barnabas.wire.uuids import Uuid
from benchmarks.link import Link

HEARTBEAT_VERSION, SHARE_HEARTBEAT_VERSION, SHARE_VERSION = 1, 1, 2
LEAVING = -1
ACCEPT = 1
SETTLED_LIMIT_S = 60.0
FETCHED_RECORDS = 500  # what Kafka's consumer asks for
At = tuple[Uuid, int]


class Consumer(Link):
    def __init__(self, group: str, topic: str, changed: Callable[[], None]) -> None:
        super().__init__()
        self.id = str(Uuid.random())
        self.epoch = 0
        self.owned: set[At] = set()
        self.given_back = 0
        self.silent = False
        self._group = group
        self._topic = topic
        self._changed = changed

    async def join(self) -> None:
        await self.beat(topics=[self._topic])

    async def live(self, heartbeat_s: float) -> None:
        """Until it is silent."""
        await self.join()
        while not self.silent:
            await asyncio.sleep(heartbeat_s)
            await self.beat()

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.id, member_epoch=LEAVING)
        await self.ask(request, HEARTBEAT_VERSION)

    def heartbeat_frame(self) -> bytearray:
        """Of a member that has nothing to say."""
        request = ConsumerGroupHeartbeatRequest(group_id=self._group, member_id=self.id, member_epoch=self.epoch)
        return request_frame(request, HEARTBEAT_VERSION, 1, "benchmark")

    async def beat(self, topics: list[str] | None = None) -> None:
        says_owned = topics is not None
        while True:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.id,
                member_epoch=self.epoch,
                rebalance_timeout_ms=30_000 if topics is not None else -1,
                subscribed_topic_names=topics,
                topic_partitions=self._partitions() if says_owned else None,
            )
            answer = await self.ask(request, HEARTBEAT_VERSION)
            _check("ConsumerGroupHeartbeat", answer.error_code)
            self.epoch, topics = answer.member_epoch, None
            if answer.assignment is None:
                return
            given = {(each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions}
            self.given_back += len(self.owned - given)
            self.owned, says_owned = given, True
            self._changed()

    def _partitions(self) -> list[TopicPartitions]:
        by_topic: dict[Uuid, list[int]] = {}
        for topic_id, index in self.owned:
            by_topic.setdefault(topic_id, []).append(index)
        return [TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in by_topic.items()]


class ConsumerCrew:
    """Settled: each partition is with one member, and no member has two more than another."""

    def __init__(self, servers: str, group: str, topic: str, partitions: int, heartbeat_s: float) -> None:
        self.members: list[Consumer] = []
        self._servers, self._group, self._topic = servers, group, topic
        self._partitions = partitions
        self._heartbeat_s = heartbeat_s
        self._settled = asyncio.Event()
        self._lives: dict[str, asyncio.Task[None]] = {}

    async def connect(self) -> Consumer:
        member = Consumer(self._group, self._topic, self._look)
        await member.connect(self._servers)
        return member

    async def add(self, *members: Consumer) -> float:
        """They join at once; the seconds until the group has settled."""
        self._settled.clear()
        began = time.perf_counter()
        self.members += members
        self._lives |= {each.id: asyncio.ensure_future(each.live(self._heartbeat_s)) for each in members}
        await self._wait()
        return time.perf_counter() - began

    async def remove(self, member: Consumer) -> float:
        """It leaves; the seconds until the others have settled."""
        await self.silence(member)
        self._settled.clear()
        self.members.remove(member)
        began = time.perf_counter()
        await member.leave()
        self._look()
        await self._wait()
        took = time.perf_counter() - began
        member.close()
        return took

    async def silence(self, *members: Consumer) -> None:
        """They send no heartbeats of their own any more, and all that they have sent are answered."""
        for member in members:
            member.silent = True
        await asyncio.gather(*[self._lives.pop(member.id) for member in members])

    def _look(self) -> None:
        sizes = [len(member.owned) for member in self.members]
        together = {at for member in self.members for at in member.owned}
        if sum(sizes) == len(together) == self._partitions and max(sizes) - min(sizes) <= 1:
            self._settled.set()

    async def _wait(self) -> None:
        settled = asyncio.ensure_future(self._settled.wait())
        done, _ = await asyncio.wait(
            [settled, *self._lives.values()], timeout=SETTLED_LIMIT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if settled not in done:
            settled.cancel()
            for failed in done:
                failed.result()
            raise TimeoutError(f"the group has not settled in {SETTLED_LIMIT_S:.0f} s")

    def close(self) -> None:
        for life in self._lives.values():
            life.cancel()
        for member in self.members:
            member.close()


class ShareMember(Link):
    """Takes what is free in one partition."""

    def __init__(self, group: str, topic: str, at: At) -> None:
        super().__init__()
        self.id = str(Uuid.random())
        self._group, self._topic = group, topic
        self._topic_id, self._partition = at
        self._epoch = 0
        self._taken: list[tuple[int, int]] = []

    async def join(self) -> None:
        """Until partitions are assigned, which means that their state is initialized."""
        epoch = 0
        limit = time.monotonic() + SETTLED_LIMIT_S
        while time.monotonic() < limit:
            request = ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self.id,
                member_epoch=epoch,
                subscribed_topic_names=None if epoch else [self._topic],
            )
            answer = await self.ask(request, SHARE_HEARTBEAT_VERSION)
            _check("ShareGroupHeartbeat", answer.error_code)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return
            epoch = answer.member_epoch
            await asyncio.sleep(0.05)
        raise TimeoutError(f"the share group has assigned nothing in {SETTLED_LIMIT_S:.0f} s")

    async def take(self, wait_ms: int = 500) -> int:
        """How many records were taken; those of the last time are acknowledged with the request."""
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
            for first, last in self._taken
        ]
        part = FetchPartition(partition_index=self._partition, acknowledgement_batches=batches)
        topics = [FetchTopic(topic_id=self._topic_id, partitions=[part])]
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self.id,
            share_session_epoch=self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=52_428_800,
            max_records=FETCHED_RECORDS,
            batch_size=FETCHED_RECORDS,
            topics=topics if batches or self._epoch == 0 else [],
        )
        answer = await self.ask(request, SHARE_VERSION)
        _check("ShareFetch", answer.error_code)
        self._epoch += 1
        self._taken = []
        for topic in answer.responses:
            for each in topic.partitions:
                _check("ShareFetch", each.error_code, each.acknowledge_error_code)
                self._taken += [(run.first_offset, run.last_offset) for run in each.acquired_records]
        return sum(last - first + 1 for first, last in self._taken)

    async def acknowledge_singly(self) -> list[float]:
        """Each record that was taken by a request of its own; the seconds of each."""
        taken, self._taken = self._taken, []
        took = []
        for first, last in taken:
            for offset in range(first, last + 1):
                batch = AcknowledgedBatch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT])
                part = AcknowledgePartition(partition_index=self._partition, acknowledgement_batches=[batch])
                request = ShareAcknowledgeRequest(
                    group_id=self._group,
                    member_id=self.id,
                    share_session_epoch=self._epoch,
                    topics=[AcknowledgeTopic(topic_id=self._topic_id, partitions=[part])],
                )
                began = time.perf_counter()
                answer = await self.ask(request, SHARE_VERSION)
                took.append(time.perf_counter() - began)
                _check("ShareAcknowledge", answer.error_code, answer.responses[0].partitions[0].error_code)
                self._epoch += 1
        return took


def _check(name: str, *codes: int) -> None:
    if code := next(filter(None, codes), 0):
        raise RuntimeError(f"{name} was answered with {ErrorCode(code).name}")
