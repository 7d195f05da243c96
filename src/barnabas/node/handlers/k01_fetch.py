"""Fetch, versions 4 to 18: whole batches of partitions that this node leads, at once or when enough have arrived.

5 brought the log start offset, 7 fetch sessions, 9 the leader epoch, 11 the rack, 12 compact encoding and the
diverging epoch, 13 topics by id, 15 the replica's epoch, 16 endpoints of other leaders, 17 and 18 what only replicas
say.

The limits are those of Kafka: a partition's, the request's and the broker's `fetch.max.bytes`; only the first partition
with data may exceed them, by one batch. Nothing above the high watermark is given out, nor above the last stable offset
to who reads committed records.

Deviations from Kafka: an answer ends with a whole batch, where Kafka may cut the last one off; a roll of the segment
does not wake a waiting fetch before it has its least bytes. Fetches of replicas are answered as those of a broker that
is no replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.security.model import Operation, Resource
from barnabas.node.fetch_response import ENDPOINTS_SINCE, pack_answer
from barnabas.node.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    CachedPartition,
    FetchSession,
    PartitionFetch,
    TopicKey,
)
from barnabas.node.leaders import current_leader, leader_endpoint
from barnabas.node.requests import ListenerKind, RawResponse, RequestContext
from barnabas.node.waiting import WaitingFetch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    PartitionData,
)
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.node import Node

TOPIC_IDS_SINCE = 13
STORAGE_ERRORS_SINCE = 6
REPLICA_STATE_SINCE = 15
READ_COMMITTED = 1
# So much of an answer is read at once. The rest is read as the client takes it, so that slow ones cost no memory.
EAGER_BYTES = 1 << 20


async def handle(context: RequestContext, request: FetchRequest, node: Node) -> RawResponse:
    if context.listener_kind is ListenerKind.CONTROLLER:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The metadata quorum of this node has no other members yet.")
    try:
        fetch = _Fetch(context, request, node)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise
        return pack_answer(context.api_version, INVALID_SESSION_ID, [], error.code)
    missing_bytes = fetch.read()
    if missing_bytes > 0 and request.max_wait_ms > 0:
        await fetch.wait(missing_bytes, request.max_wait_ms)
        fetch.read()
    return fetch.answer()


def error_response(request: FetchRequest, error: KafkaError) -> FetchResponse:
    """By name, older clients look into each partition for the error."""
    return FetchResponse(
        error_code=error.code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=error.code, high_watermark=-1)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.topic
        ],
    )


class _Fetch:
    """One request on its way: of a session that goes on, of one to be created, or of none."""

    __slots__ = (
        "_by_id",
        "_context",
        "_creates_session",
        "_epoch",
        "_fetches",
        "_from_replica",
        "_image",
        "_max_bytes",
        "_min_bytes",
        "_node",
        "_read_committed",
        "_readable",
        "_session",
        "_unreadable",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, node: Node) -> None:
        if request.isolation_level not in (0, READ_COMMITTED):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {request.isolation_level}")
        self._context = context
        self._node = node
        self._image = node.image
        self._by_id = context.api_version >= TOPIC_IDS_SINCE
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        replica_id = (
            request.replica_state.replica_id if context.api_version >= REPLICA_STATE_SINCE else request.replica_id
        )
        self._from_replica = replica_id >= 0
        self._session: FetchSession | None = None
        self._epoch = 0
        self._creates_session = request.session_epoch == INITIAL_EPOCH
        self._fetches: list[PartitionFetch] = []
        self._readable: list[PartitionFetch] = []
        self._unreadable: list[PartitionFetch] = []
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                node.fetch_sessions.close(request.session_id)
            self._fetch_all(request)
        else:
            self._continue_session(request)

    def _key(self, topic: FetchTopic | ForgottenTopic) -> TopicKey:
        return topic.topic_id if self._by_id else topic.topic

    def _fetch_all(self, request: FetchRequest) -> None:
        kind = CachedPartition if self._creates_session else PartitionFetch
        asked: dict[tuple[TopicKey, int], PartitionFetch] = {}
        for topic in request.topics:
            key = self._key(topic)
            for partition in topic.partitions:
                asked[key, partition.partition] = kind(key, partition)
        self._fetches = list(asked.values())

    def _continue_session(self, request: FetchRequest) -> None:
        sessions = self._node.fetch_sessions
        session = sessions.open(request.session_id, request.session_epoch, self._by_id)
        for topic in request.topics:
            for partition in topic.partitions:
                session.renew(self._key(topic), partition)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                session.forget(self._key(forgotten), index)
        if not session.partitions:
            sessions.close(session.id)
            self._fetch_all(request)
            return
        session.read_with(self._read_committed)
        self._session = session
        self._epoch = sessions.proceed(session)

    # Reading

    def read(self) -> int:
        """Reads what there is; returns how many bytes are missing before the answer may go, 0 if it may."""
        if self._session is not None:
            self._fetches = list(self._session.dirty)
        self._readable, self._unreadable = [], []
        for fetch in self._fetches:
            (self._readable if self._find(fetch) else self._unreadable).append(fetch)
        if self._from_replica:
            for fetch in self._readable:
                fetch.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return 0
        left_bytes, found_bytes = self._max_bytes, 0
        failed = False
        for fetch in self._readable:
            assert fetch.partition is not None
            size = fetch.partition.read(
                fetch, left_bytes, not found_bytes, self._read_committed, EAGER_BYTES - found_bytes
            )
            fetch.available_bytes = size
            found_bytes += size
            left_bytes = max(left_bytes - size, 0) if size else left_bytes
            if fetch.error_code or fetch.diverging_epoch is not None:
                failed = True
        asked = len(self._fetches) if self._session is None else len(self._session.partitions)
        if failed or asked == len(self._unreadable):
            return 0
        return self._min_bytes - found_bytes

    def _find(self, fetch: PartitionFetch) -> bool:
        """Whether the partition can be read; if not, the fetch says why."""
        partition = fetch.partition
        if partition is None or partition.is_gone:
            topic, error = self._topic_of(fetch)
            if topic is not None:
                fetch.topic = topic
                partition = self._node.partitions.get(topic, fetch.index)
                if partition is None:
                    error = self._node.partitions.missing_error(self._image, topic, fetch.index)
            if topic is None or partition is None:
                fetch.partition = None
                self._refuse(fetch, error)
                return False
            fetch.partition = partition
        if not self._context.may(Operation.READ, Resource.topic(partition.topic)):
            fetch.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
            return False
        return True

    def _topic_of(self, fetch: PartitionFetch) -> tuple[str | None, ErrorCode]:
        key = fetch.topic_key
        if not isinstance(key, Uuid):
            return key, ErrorCode.NONE
        name = self._image.topic_names.get(key)
        if name is not None:
            return name, ErrorCode.NONE
        if fetch.topic is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
        gone = fetch.topic not in self._image.topics
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.INCONSISTENT_TOPIC_ID

    def _refuse(self, fetch: PartitionFetch, error: ErrorCode) -> None:
        """Kafka finds partitions that are not hosted only when it reads, and then lists no aborted transactions."""
        late = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
        fetch.fail(error, None if late else [])

    # Waiting

    async def wait(self, missing_bytes: int, timeout_ms: int) -> None:
        waiting = WaitingFetch(missing_bytes, self._read_committed)
        session = self._session
        if session is not None:
            session.waiting.append(waiting)
            for cached in session.dirty:
                cached.watch()
            try:
                await waiting.until_woken(timeout_ms)
            finally:
                session.waiting.remove(waiting)
            return
        for fetch in self._readable:
            assert fetch.partition is not None
            fetch.waiting = waiting
            fetch.partition.watchers[fetch] = None
        try:
            await waiting.until_woken(timeout_ms)
        finally:
            for fetch in self._readable:
                fetch.waiting = None
                if fetch.partition is not None:
                    fetch.partition.watchers.pop(fetch, None)

    # Answering

    def answer(self) -> RawResponse:
        version = self._context.api_version
        fetches = [*self._readable, *self._unreadable] if self._unreadable else self._readable
        endpoints: dict[int, NodeEndpoint] = {}
        for fetch in fetches:
            if fetch.error_code:
                self._explain(fetch, version, endpoints)
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                return pack_answer(version, session.id, [], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            fetches = [fetch for fetch in fetches if self._settle(fetch)]
        elif self._creates_session:
            cached = [fetch for fetch in fetches if isinstance(fetch, CachedPartition)]
            session = self._node.fetch_sessions.create(cached, len(cached), self._by_id, self._read_committed)
            if session is not None:
                for fetch in fetches:
                    self._settle(fetch, first=True)
        session_id = INVALID_SESSION_ID if session is None else session.id
        answer = pack_answer(version, session_id, fetches, 0, list(endpoints.values()))
        if session is not None:
            for fetch in fetches:
                fetch.forget_records()
        return answer

    def _settle(self, fetch: PartitionFetch, *, first: bool = False) -> bool:
        assert isinstance(fetch, CachedPartition)
        end_offset = 0 if fetch.partition is None else fetch.partition.readable_end(self._read_committed)
        return fetch.settle(end_offset, first=first)

    def _explain(self, fetch: PartitionFetch, version: int, endpoints: dict[int, NodeEndpoint]) -> None:
        """An error as the version can say it, with the leader where this node is not it."""
        if fetch.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERRORS_SINCE:
            fetch.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version >= ENDPOINTS_SINCE and fetch.error_code in (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.FENCED_LEADER_EPOCH,
        ):
            fetch.current_leader = leader = current_leader(self._image, fetch.topic or "", fetch.index)
            found = leader_endpoint(self._image, leader, self._context.listener)
            if found is not None and not self._from_replica:
                endpoints[found.node_id] = NodeEndpoint(**found._asdict())
