"""ShareFetch, versions 1 and 2: records of a share session's partitions, taken for the member, and acknowledgements.

2 brought renewals, and that no more records are taken than asked for. Acknowledgements come first, so that what they
release may be taken at once. A fetch that finds nothing waits until records are appended or released.

Control records are given to the consumer, who says that they are gaps; aborted ones are archived if only committed ones
are read.

Deviations from Kafka: offsets that compaction left between batches are archived when they are passed, where Kafka gives
them to the consumer, who says that they are gaps. Of a topic that nobody knows the partitions are told so,
a negative number of bytes is none, and a mode that nobody knows takes whole batches, where Kafka answers
UNKNOWN_SERVER_ERROR. With a batch size of 0 or less each batch is a range of its own; Kafka tells of one range more,
which ends before it begins. Where a fetch that may take no more than it asks for begins amid a batch, Kafka tells of
the rest of that batch as a range of its own. Where no record is as young as `share.auto.offset.reset=by_duration` says,
a group begins at the end of the log; Kafka answers OFFSET_NOT_AVAILABLE until there is one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.core.share.partition import Acknowledgement, AcknowledgeType, Acquired
from barnabas.core.share.records import ShareKey
from barnabas.node.broker.leaders import current_leader
from barnabas.node.broker.shares.served import ServedPartition, Taken
from barnabas.node.broker.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.node.broker.waiting import WaitingFetch
from barnabas.node.handlers.group_protocols import checked_share_member_id, require_share_protocol
from barnabas.node.item_faults import item_error
from barnabas.node.requests import RequestContext
from barnabas.wire.batch import iterate_batches
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.share_fetch import (
    AcquiredRecords,
    FetchPartition,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Shares

At = tuple[Uuid, int]
EXACT = 1
ACKNOWLEDGE_TYPES = frozenset(AcknowledgeType)
RENEWS_SINCE = 2
ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


async def handle(context: RequestContext, request: ShareFetchRequest, node: Shares) -> ShareFetchResponse:
    try:
        require_share_protocol(node)
        fetch = _ShareFetch(context, request, node)
        fetch.begin()
    except KafkaError as error:
        return ShareFetchResponse(error_code=error.code, error_message=error.message or None)
    await fetch.acknowledge()
    if request.share_session_epoch == FINAL_EPOCH:
        await fetch.end()
    elif not request.is_renew_ack:
        await fetch.take()
    return fetch.answer()


class _ShareFetch:
    def __init__(self, context: RequestContext, request: ShareFetchRequest, node: Shares) -> None:
        if request.group_id is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
        if not context.may(Operation.READ, Resource.group(request.group_id)):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        member_id = checked_share_member_id(request.member_id)
        limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
        if request.is_renew_ack and any(limits):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A request that renews asks for no records.")
        self._context = context
        self._request = request
        self._node = node
        self._group_id = request.group_id
        self._member_id = member_id
        self._asked: dict[At, FetchPartition] = {
            (topic.topic_id, each.partition_index): each for topic in request.topics for each in topic.partitions
        }
        self._wanted: list[At] = []
        self._answers: dict[At, PartitionData] = {}

    def begin(self) -> None:
        sessions, request = self._node.share_partitions.sessions, self._request
        epoch = request.share_session_epoch
        acknowledges = any(each.acknowledgement_batches for each in self._asked.values())
        if epoch == FINAL_EPOCH:
            sessions.find(self._group_id, self._member_id)
        elif epoch == INITIAL_EPOCH:
            if acknowledges:
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            session = sessions.open(self._group_id, self._member_id, self._context.session)
            session.partitions = dict.fromkeys(self._asked)
            self._wanted = session.in_turn()
        else:
            session = sessions.proceed(self._group_id, self._member_id, epoch)
            session.partitions |= dict.fromkeys(self._asked)
            for forgotten in request.forgotten_topics_data:
                for index in forgotten.partitions:
                    session.partitions.pop((forgotten.topic_id, index), None)
            self._wanted = session.in_turn()

    def _key(self, at: At) -> ShareKey:
        return ShareKey(self._group_id, *at)

    # Acknowledging

    async def acknowledge(self) -> None:
        asked = [(at, each) for at, each in self._asked.items() if each.acknowledgement_batches]
        if len(asked) == 1:
            await self._acknowledge(*asked[0])
        else:  # side by side: each may wait for a coordinator on another broker, and for its replicas
            await asyncio.gather(*[self._acknowledge(at, each) for at, each in asked])

    async def _acknowledge(self, at: At, asked: FetchPartition) -> None:
        answer = self._answers[at] = PartitionData(partition_index=at[1])
        try:
            self._authorize(at)
            batches = [
                Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in asked.acknowledgement_batches
            ]
            renews = self._request.is_renew_ack
            await acknowledge(self._node, self._key(at), self._member_id, batches, renews=renews)
        except Exception as fault:
            error = item_error(fault, "an acknowledgement")
            answer.acknowledge_error_code = error.code
            answer.acknowledge_error_message = error.message or None
            self._name_leader(at, answer, error.code)

    def _authorize(self, at: At) -> None:
        topic = self._node.image.topic_names.get(at[0])
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not self._context.may(Operation.READ, Resource.topic(topic)):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    async def end(self) -> None:
        partitions = self._node.share_partitions
        partitions.sessions.close(self._group_id, self._member_id)
        partitions.session_ended(self._group_id, self._member_id)

    # Taking

    async def take(self) -> None:
        served = await self._serve()
        if self._take(served) or self._request.max_wait_ms <= 0 or not served:
            return
        waiting = WaitingFetch(1, read_committed=False)
        watchers = {each: _Appended(waiting) for each in served.values()}
        for each, watcher in watchers.items():
            each.partition.watchers[watcher] = None
            each.on_free.add(waiting.wake)
        try:
            if self._take(served):
                return
            await waiting.until_woken(self._request.max_wait_ms)
        finally:
            for each, watcher in watchers.items():
                each.partition.watchers.pop(watcher, None)
                each.on_free.discard(waiting.wake)
        self._take(served)

    async def _serve(self) -> dict[At, ServedPartition]:
        partitions = self._node.share_partitions
        if all(partitions.find(self._key(at)) is not None for at in self._wanted):
            found = [await self._serve_one(at) for at in self._wanted]
        else:  # side by side: their states may be read from other brokers
            found = await asyncio.gather(*[self._serve_one(at) for at in self._wanted])
        return {at: each for at, each in zip(self._wanted, found, strict=True) if each is not None}

    async def _serve_one(self, at: At) -> ServedPartition | None:
        try:
            self._authorize(at)
            return await self._node.share_partitions.serve(self._key(at))
        except Exception as fault:
            error = item_error(fault, "a share partition")
            answer = self._answers.setdefault(at, PartitionData(partition_index=at[1]))
            answer.error_code, answer.error_message = error.code, error.message or None
            self._name_leader(at, answer, error.code)
            return None

    def _take(self, served: dict[At, ServedPartition]) -> bool:
        """Whether there is anything to answer with."""
        request = self._request
        left_records, left_bytes = request.max_records, request.max_bytes
        exact = request.share_acquire_mode == EXACT
        for at, each in served.items():
            if left_records <= 0 or left_bytes <= 0:
                break
            taken = each.take(self._member_id, left_records, left_bytes, exact=exact)
            if not taken.acquired:
                continue
            left_records -= sum(one.last - one.first + 1 for one in taken.acquired)
            left_bytes -= len(taken.records)
            self._note(at, taken)
        return any(answer.acquired_records or answer.error_code for answer in self._answers.values())

    def _note(self, at: At, taken: Taken) -> None:
        answer = self._answers.setdefault(at, PartitionData(partition_index=at[1]))
        if answer.acquired_records:
            answer.records = bytes(answer.records or b"") + taken.records
        else:
            answer.records = taken.records
        answer.acquired_records = [
            *answer.acquired_records,
            *(
                AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries)
                for each in self._entries(taken)
            ),
        ]

    def _entries(self, taken: Taken) -> list[Acquired]:
        """`batch_size` is how many records one entry should have; entries end where batches do."""
        ranges, size = _grouped(taken.acquired), self._request.batch_size
        if self._request.share_acquire_mode == EXACT or all(each.last - each.first < size for each in ranges):
            return ranges
        starts = [header.base_offset for _, header in iterate_batches(taken.records)]
        return [part for each in ranges for part in _divided(each, starts, size)]

    def _name_leader(self, at: At, answer: PartitionData, code: int) -> None:
        topic = self._node.image.topic_names.get(at[0])
        if code in ELSEWHERE and topic is not None:
            leader_id, leader_epoch = current_leader(self._node.image, topic, at[1])
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)

    def answer(self) -> ShareFetchResponse:
        if self._request.share_session_epoch == INITIAL_EPOCH:
            for at in self._wanted:
                self._answers.setdefault(at, PartitionData(partition_index=at[1]))
        topics: dict[Uuid, list[PartitionData]] = {}
        for (topic_id, _), answer in self._answers.items():
            topics.setdefault(topic_id, []).append(answer)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self._node.share_partitions.settings(self._group_id).lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )


def _grouped(acquired: Iterable[Acquired]) -> list[Acquired]:
    """Neighbours that were delivered as often are one range."""
    found: list[Acquired] = []
    for each in acquired:
        last = found[-1] if found else None
        if last is not None and last.last + 1 == each.first and last.deliveries == each.deliveries:
            found[-1] = last._replace(last=each.last)
        else:
            found.append(each)
    return found


def _divided(acquired: Acquired, starts: list[int], size: int) -> Iterator[Acquired]:
    for start in starts[bisect_right(starts, acquired.first) : bisect_right(starts, acquired.last)]:
        if start - acquired.first >= size:
            yield acquired._replace(last=start - 1)
            acquired = acquired._replace(first=start)
    yield acquired


async def acknowledge(
    node: Shares, key: ShareKey, member_id: str, batches: list[Acknowledgement], *, renews: bool
) -> None:
    _check(batches, renews=renews)
    node.share_partitions.leading(key)
    served = node.share_partitions.find(key)
    if served is None:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "The records are not acquired: the share partition is new.")
    await served.acknowledge(member_id, batches)


def _check(batches: Iterable[Acknowledgement], *, renews: bool) -> None:
    """Refuses what no state of the partition would make right."""
    before = -1
    for first, last, types in batches:
        goes_up = before <= first <= last
        fits = len(types) == 1 or (types and len(types) == last - first + 1)
        may_renew = renews or AcknowledgeType.RENEW not in types  # a request that renews has to say so
        if not (goes_up and fits and may_renew and set(types) <= ACKNOWLEDGE_TYPES):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        before = last


class _Appended:
    """Wakes a waiting fetch when its partition has more, or has changed."""

    __slots__ = ("_waiting",)

    def __init__(self, waiting: WaitingFetch) -> None:
        self._waiting = waiting

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        if size_bytes or stable_bytes:
            self._waiting.wake()
        return not self._waiting.is_over

    def changed(self) -> None:
        self._waiting.wake()
