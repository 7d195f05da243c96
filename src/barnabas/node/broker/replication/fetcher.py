"""One connection to one leader, over which this broker copies partitions that it follows there.

A fetch is always on its way while there is anything to copy: the leader holds it until it has news. Its answer is taken
partition by partition (`core.replication.following`); what has changed goes into the next request. A partition whose
answer was an error rests, each time longer, for `backoff_s` at most, and is left out until then: mostly the leader only
has to hear that it leads. A partition that is throttled and lags is left out too, while more than the follower's rate
has been copied; one that has everything is not.

Partitions come and go while a fetch is on its way. An answer counts for a partition only if it is still followed here
in the leader epoch in which it was asked for, and its log still ends where it was asked from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.client.errors import ClientError
from barnabas.client.peer import Peer
from barnabas.core.replication.following import Resume, Step, next_step, resume
from barnabas.node.broker.partition import Partition
from barnabas.node.broker.replication.fetch_session import FollowerSession, PartitionKey, Position
from barnabas.node.broker.replication.throttles import ReplicaThrottle
from barnabas.node.storage.directory.log_dirs import LogDirs
from barnabas.node.storage.placing import begins_before
from barnabas.node.turns import Turn
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from barnabas.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

log = logging.getLogger("barnabas.replication")

LATEST, EARLIEST = -1, -2
TIMEOUT_MARGIN_MS = 30_000
REST_S = 0.02
THROTTLED_S = 0.5  # then it is asked again: the rate may be another one
FAILURES_TOLD, FAILURES_MAX = 5, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    wait_max_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_s: float = 1.0


class Fetcher:
    def __init__(
        self,
        node_id: int,
        leader_id: int,
        peer: Peer,
        log_dirs: LogDirs,
        limits: FetchLimits,
        throttle: ReplicaThrottle,
        *,
        broker_epoch: Callable[[], int],
        fetch_version: Callable[[], int],
        list_offsets_version: Callable[[], int],
        clock: Callable[[], int],
    ) -> None:
        self.leader_id = leader_id
        self._node_id = node_id
        self._peer = peer
        self._log_dirs = log_dirs
        self._limits = limits
        self._throttle = throttle
        self._broker_epoch = broker_epoch
        self._fetch_version = fetch_version
        self._list_offsets_version = list_offsets_version
        self._clock = clock
        self._session = FollowerSession(limits.partition_max_bytes)
        self._partitions: dict[PartitionKey, Partition] = {}
        # Those of them that are fetched; the others rest after an error, or because they are throttled.
        self._wanted: dict[PartitionKey, Partition] = {}
        self._changed: dict[PartitionKey, None] = {}
        self._timers: dict[PartitionKey, asyncio.TimerHandle] = {}
        self._work = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetcher-{leader_id}")
        self._failures: dict[PartitionKey, int] = {}
        self._caught_up: set[PartitionKey] = set()  # those that had everything committed at the last answer

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def address(self) -> tuple[str, int]:
        return self._peer.address

    def add(self, partition: Partition) -> None:
        """Also of one whose leader epoch is another now."""
        key = (partition.topic_id, partition.index)
        self._partitions[key] = partition
        self._caught_up.discard(key)
        self._want(key)

    def remove(self, key: PartitionKey) -> None:
        self._partitions.pop(key, None)
        self._failures.pop(key, None)
        self._caught_up.discard(key)
        self._leave_out(key)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        for timer in self._timers.values():
            timer.cancel()
        await self._peer.close()

    # What is fetched

    def _want(self, key: PartitionKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._partitions:
            self._wanted[key] = self._partitions[key]
            self._changed[key] = None
            self._work.set()

    def _leave_out(self, key: PartitionKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._wanted.pop(key, None)
        self._changed[key] = None

    def _rest(self, key: PartitionKey) -> None:
        self._leave_out(key)
        if key in self._partitions:
            rest_s = min(REST_S * 2 ** self._failures.get(key, 0), self._limits.backoff_s)
            self._failures[key] = min(self._failures.get(key, 0) + 1, FAILURES_MAX)
            self._timers[key] = asyncio.get_running_loop().call_later(rest_s, self._want, key)

    def _hold_back(self) -> None:
        """While the rate is exceeded, throttled partitions that lag are left out."""
        rest_s = self._throttle.rest_s
        if not rest_s:
            return
        for key, partition in list(self._wanted.items()):
            if key not in self._caught_up and self._throttle.covers(partition):
                self._leave_out(key)
                self._timers[key] = asyncio.get_running_loop().call_later(min(rest_s, THROTTLED_S), self._want, key)

    def _position(self, key: PartitionKey) -> Position:
        partition = self._wanted[key]
        fetch_offset, last_epoch = partition.fetch_position
        return Position(partition.leader_epoch, fetch_offset, last_epoch, partition.log.log_start_offset)

    # Fetching

    async def _run(self) -> None:
        while True:
            self._hold_back()
            if not self._wanted:
                self._work.clear()
                await self._work.wait()
                continue
            try:
                await self._fetch()
            except ClientError as error:
                log.debug("Broker %d could not be fetched from: %s", self.leader_id, error)
                self._session.reset()
                await asyncio.sleep(0)  # the peer waits before it connects again
            except Exception:
                log.exception("Fetching from broker %d failed; trying again", self.leader_id)
                self._session.reset()
                await asyncio.sleep(self._limits.backoff_s)

    async def _fetch(self) -> None:
        limits = self._limits
        changed, self._changed = self._changed, {}
        asked = self._session.request(self._wanted, changed, self._position)
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            topics=asked.topics,
            forgotten_topics_data=asked.forgotten,
        )
        version = self._fetch_version()
        if version < 15:
            request.replica_id, request.replica_state = self._node_id, ReplicaState()
        response: FetchResponse = await self._peer.send(
            request, version, timeout_ms=limits.wait_max_ms + TIMEOUT_MARGIN_MS
        )
        if not self._session.answered(response.error_code, response.session_id):
            log.info(
                "broker %d answered a fetch with error %d: beginning a new fetch session",
                self.leader_id,
                response.error_code,
            )
            if not asked.session_id:
                await asyncio.sleep(limits.backoff_s)
            return
        turn = Turn()
        for topic in response.responses:
            for data in topic.partitions:
                await self._take((topic.topic_id, data.partition_index), data)
                if turn.is_over:
                    await turn.give_up()

    async def _take(self, key: PartitionKey, data: PartitionData) -> None:
        partition, sent = self._wanted.get(key), self._session.sent.get(key)
        if partition is None or sent is None or partition.is_gone:
            return
        is_current = partition.follows_in(sent.leader_epoch) and partition.log.log_end_offset == sent.fetch_offset
        present = sent.leader_epoch if is_current else sent.leader_epoch + 1
        step = next_step(data.error_code, data.diverging_epoch.epoch, sent.leader_epoch, present)
        try:
            if step is Step.APPEND:
                await self._append(partition, sent.leader_epoch, data)
                if partition.fetch_position != sent[1:3] or partition.log.log_start_offset != sent.log_start_offset:
                    self._changed[key] = None
                self._failures.pop(key, None)
                return
            self._changed[key] = None
            if step is Step.TRUNCATE:
                diverging = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                await self._truncate(partition, sent.leader_epoch, diverging)
            elif step is Step.FIND_RANGE:
                await self._find_range(partition, sent.leader_epoch)
            elif step is Step.STOP:
                self._leave_out(key)
            elif step is Step.WAIT:
                self._complain(key, partition, f"broker {self.leader_id} answered error {data.error_code}")
                self._rest(key)
        except KafkaError as error:
            self._complain(key, partition, f"{error.code.name}: {error.message}")
            if error.code is not ErrorCode.FENCED_LEADER_EPOCH:
                self._rest(key)

    def _complain(self, key: PartitionKey, partition: Partition, why: str) -> None:
        """Once, until it goes on, and not if that is soon."""
        level = logging.INFO if self._failures.get(key) == FAILURES_TOLD else logging.DEBUG
        log.log(level, "%s: could not copy from its leader, trying again: %s", partition.log.name, why)

    async def _append(self, partition: Partition, leader_epoch: int, data: PartitionData) -> None:
        records = data.records or b""
        base_offset = begins_before(records, partition.log.log_start_offset, partition.log.log_end_offset)
        if base_offset is not None:
            at = Resume(base_offset, empties=True)
            await partition.resume_as_follower(leader_epoch, at, self._log_dirs, self._clock())
        appended = partition.append_as_follower(records, leader_epoch, data.high_watermark, self._clock())
        if records and self._throttle.covers(partition):
            self._throttle.record(len(records))
        key = (partition.topic_id, partition.index)
        if partition.log.log_end_offset >= data.high_watermark:
            self._caught_up.add(key)
        else:
            self._caught_up.discard(key)
        if data.log_start_offset > partition.log.log_start_offset:
            partition.follow_log_start(leader_epoch, data.log_start_offset)
        if appended.flush_due:
            await self._log_dirs.sync(partition.log)

    async def _truncate(self, partition: Partition, leader_epoch: int, diverging_epoch: tuple[int, int]) -> None:
        before = partition.log.log_end_offset
        end = await partition.truncate_as_follower(leader_epoch, diverging_epoch, self._log_dirs, self._clock())
        if end < before:
            log.info(
                "%s: truncated from end offset %d to %d: epoch %d of leader %d ends at %d",
                partition.log.name,
                before,
                end,
                diverging_epoch[0],
                self.leader_id,
                diverging_epoch[1],
            )

    async def _find_range(self, partition: Partition, leader_epoch: int) -> None:
        """The leader does not have what we ask for: where its log begins and ends decides where we go on."""
        end = await self._offset_at(partition, leader_epoch, LATEST)
        start = 0 if end < partition.log.log_end_offset else await self._offset_at(partition, leader_epoch, EARLIEST)
        at = resume(start, end, partition.log.log_end_offset)
        log.warning(
            "%s: leader %d has offsets %d to %d, but not %d, the end of this replica: copying from offset %d",
            partition.log.name,
            self.leader_id,
            start,
            end,
            partition.log.log_end_offset,
            at.offset,
        )
        await partition.resume_as_follower(leader_epoch, at, self._log_dirs, self._clock())

    async def _offset_at(self, partition: Partition, leader_epoch: int, timestamp: int) -> int:
        asked = ListOffsetsPartition(
            partition_index=partition.index, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._node_id, topics=[ListOffsetsTopic(name=partition.topic, partitions=[asked])]
        )
        response: ListOffsetsResponse = await self._peer.send(request, self._list_offsets_version())
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code:
                    raise KafkaError(ErrorCode(answer.error_code), "The leader does not say where its log is.")
                return answer.offset
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The leader does not say where its log is.")
