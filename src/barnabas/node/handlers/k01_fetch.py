"""Fetch, versions 4 to 18: whole batches of partitions that this node leads, at once or when enough have arrived.

5 brought the log start offset, 7 fetch sessions, 9 the leader epoch, 11 the rack, 12 compact encoding and the
diverging epoch, 13 topics by id, 15 the replica's epoch, 16 endpoints of other leaders, 17 and 18 what only replicas
say.

The limits are those of Kafka: a partition's, the request's and the broker's `fetch.max.bytes`; only the first partition
with data may exceed them, by one batch. Nothing above the high watermark is given out, nor above the last stable offset
to who reads committed records.

Deviations from Kafka: an answer ends with a whole batch, where Kafka may cut the last one off; a roll of the segment
does not wake a waiting fetch before it has its least bytes.

From 11 on a consumer may read from a follower, up to the high watermark that this one knows. With the rack-aware
`replica.selector.class` the leader sends it to an in-sync replica of its own rack.

A follower says who it is and in which registration. It gets whatever the log has, committed or not; by the offset it
asks for the leader knows what it has. Where its log differs from the leader's it gets the epoch to cut at instead. A
throttled follower that is not in sync gets no records while the leader's rate is exceeded, and its fetch waits.

On the listeners of controllers the metadata log is fetched, by the rules of `core/raft/leading.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.replication.state import ANY_BROKER_EPOCH
from barnabas.core.security.model import Operation, Resource
from barnabas.node.broker.fetch_response import ENDPOINTS_SINCE, Found, pack_answer
from barnabas.node.broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    CachedPartition,
    FetchSession,
    PartitionFetch,
    TopicKey,
)
from barnabas.node.broker.leaders import current_leader, leader_endpoint
from barnabas.node.broker.partition import PartitionRead
from barnabas.node.broker.waiting import WaitingFetch
from barnabas.node.item_faults import item_error
from barnabas.node.requests import ListenerKind, RawResponse, RequestContext
from barnabas.node.turns import Turn
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
from barnabas.wire.schema import Response
from barnabas.wire.uuids import Uuid

if TYPE_CHECKING:
    from barnabas.node.ports import Consuming

TOPIC_IDS_SINCE = 13
STORAGE_ERRORS_SINCE = 6
FOLLOWERS_SINCE = 11
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICA_STATE_SINCE = 15
READ_COMMITTED = 1
# So much of an answer is read at once. The rest is read as the client takes it, so that slow ones cost no memory.
EAGER_BYTES = 1 << 20
ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


async def handle(context: RequestContext, request: FetchRequest, node: Consuming) -> RawResponse | Response:
    if context.listener_kind is ListenerKind.CONTROLLER:
        context.authorize(Operation.CLUSTER_ACTION, Resource.cluster())
        return await node.raft.ask(request, context.api_version, context.listener)
    try:
        fetch = _Fetch(context, request, node)
        await fetch.begin(request)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise
        return await pack_answer(context.api_version, INVALID_SESSION_ID, [], error.code)
    missing_bytes = await fetch.read()
    if missing_bytes > 0 and request.max_wait_ms > 0:
        await fetch.wait(missing_bytes, request.max_wait_ms)
        await fetch.read()
    return await fetch.answer()


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
        "_may_follow",
        "_min_bytes",
        "_node",
        "_rack",
        "_read",
        "_read_committed",
        "_readable",
        "_replica",
        "_session",
        "_turn",
        "_unnoted",
        "_unreadable",
    )

    def __init__(self, context: RequestContext, request: FetchRequest, node: Consuming) -> None:
        if request.isolation_level not in (0, READ_COMMITTED):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown isolation level {request.isolation_level}")
        self._context = context
        self._node = node
        self._image = node.image
        self._by_id = context.api_version >= TOPIC_IDS_SINCE
        self._read_committed = request.isolation_level == READ_COMMITTED
        self._max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        state = request.replica_state
        self._replica = (
            (state.replica_id, state.replica_epoch)
            if context.api_version >= REPLICA_STATE_SINCE
            else (request.replica_id, ANY_BROKER_EPOCH)
        )
        self._from_replica = self._replica[0] >= 0
        self._may_follow = not self._from_replica and context.api_version >= FOLLOWERS_SINCE
        selects = node.config.replica_selector_class == RACK_AWARE
        self._rack = request.rack_id if selects and self._may_follow else ""
        self._session: FetchSession | None = None
        self._epoch = 0
        self._creates_session = request.session_epoch == INITIAL_EPOCH
        self._fetches: list[PartitionFetch] = []
        self._readable: list[PartitionFetch] = []
        # What was found in those that can be read, in their order, and why the others cannot.
        self._read: list[Found] = []
        self._unreadable: list[Found] = []
        # Those that could not be read before the wait; the progress of all others has been noted by then.
        self._unnoted: set[PartitionFetch] | None = None
        self._turn = Turn()

    async def begin(self, request: FetchRequest) -> None:
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != INVALID_SESSION_ID:
                self._node.fetch_sessions.close(request.session_id)
            await self._fetch_all(request)
        else:
            await self._continue_session(request)

    def _key(self, topic: FetchTopic | ForgottenTopic) -> TopicKey:
        return topic.topic_id if self._by_id else topic.topic

    async def _fetch_all(self, request: FetchRequest) -> None:
        kind = CachedPartition if self._creates_session else PartitionFetch
        if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
            (topic,) = request.topics
            self._fetches = [kind(self._key(topic), topic.partitions[0], self._from_replica)]
            return
        asked: dict[tuple[TopicKey, int], PartitionFetch] = {}
        turn = self._turn
        for topic in request.topics:
            key = self._key(topic)
            for partition in topic.partitions:
                if turn.is_over:
                    await turn.give_up()
                asked[key, partition.partition] = kind(key, partition, self._from_replica)
        self._fetches = list(asked.values())

    async def _continue_session(self, request: FetchRequest) -> None:
        sessions = self._node.fetch_sessions
        session, turn = sessions.open(request.session_id, request.session_epoch, self._by_id), self._turn
        known = len(session.partitions)
        for topic in request.topics:
            for partition in topic.partitions:
                if turn.is_over:
                    await turn.give_up()
                session.renew(self._key(topic), partition)
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                if turn.is_over:
                    await turn.give_up()
                session.forget(self._key(forgotten), index)
        if not session.partitions:
            sessions.close(session.id)
            await self._fetch_all(request)
            return
        if len(session.partitions) > known:
            sessions.require_room(session)
        session.read_with(self._read_committed)
        self._session = session
        self._epoch = sessions.proceed(session)
        sessions.own(session, self._context.session)

    # Reading

    async def read(self) -> int:
        """Reads what there is; returns how many bytes are missing before the answer may go, 0 if it may."""
        turn = self._turn
        if self._session is not None:
            self._fetches = list(self._session.dirty)
        self._readable, self._read, self._unreadable = [], [], []
        several = len(self._fetches) > 1
        for fetch in self._fetches:
            if several and turn.is_over:
                await turn.give_up()
            refused = self._find(fetch)
            if refused is None:
                self._readable.append(fetch)
            else:
                self._unreadable.append((fetch, refused))
        left_bytes, found_bytes = self._max_bytes, 0
        failed = False
        for fetch in self._readable:
            if several and turn.is_over:
                await turn.give_up()
            assert fetch.partition is not None
            try:
                if self._from_replica and self._is_held_back(fetch):
                    found = fetch.partition.read(fetch, 0, False, self._read_committed)
                else:
                    found = fetch.partition.read(
                        fetch, left_bytes, not found_bytes, self._read_committed, EAGER_BYTES - found_bytes
                    )
            except Exception as fault:
                found = PartitionRead(item_error(fault, fetch.partition.log.name).code)
            if self._rack and not found.error_code:
                found = self._prefer(fetch, found)
            self._read.append((fetch, found))
            fetch.available_bytes = size = len(found.records)
            found_bytes += size
            left_bytes = max(left_bytes - size, 0) if size else left_bytes
            if found.error_code or found.diverging_epoch is not None or found.preferred_read_replica >= 0:
                failed = True
        if self._from_replica:
            self._note_progress()
        asked = len(self._fetches) if self._session is None else len(self._session.partitions)
        if failed or asked == len(self._unreadable):
            return 0
        return self._min_bytes - found_bytes

    def _prefer(self, fetch: PartitionFetch, found: PartitionRead) -> PartitionRead:
        """A consumer is sent to a replica of its own rack, and gets nothing here."""
        assert fetch.partition is not None
        brokers = self._image.brokers

        def rack_of(broker_id: int) -> str | None:
            broker = brokers.get(broker_id)
            return None if broker is None or broker.fenced else broker.rack

        replica = fetch.partition.replica_with(fetch.fetch_offset, self._rack, rack_of)
        aborted: list[tuple[int, int]] | None = None if found.aborted_transactions is None else []
        if replica < 0:
            return found
        return found._replace(records=b"", aborted_transactions=aborted, preferred_read_replica=replica)

    def _note_progress(self) -> None:
        """What the follower asks for, it does not have yet; it has all before it.

        A leader may hear that it leads only while the fetch waits. The answer is without error then, so the follower
        goes on without asking for the partition again: what it asked for is noted by the second read, or never.
        """
        replica_id, broker_epoch = self._replica
        now_ms = self._node.clock()
        unnoted, self._unnoted = self._unnoted, {fetch for fetch, _ in self._unreadable}
        for fetch, found in self._read:
            partition = fetch.partition
            if unnoted is not None and fetch not in unnoted:
                continue
            if found.error_code or found.diverging_epoch is not None or partition is None:
                continue
            # Other requests may have had their turn since it was read: what was true of one leader epoch is not said
            # of the next.
            if self._turn.given_up and partition.replica_error(replica_id, broker_epoch, fetch.current_leader_epoch):
                continue
            partition.fetched_by(replica_id, fetch.fetch_offset, broker_epoch, now_ms)

    def _is_held_back(self, fetch: PartitionFetch) -> bool:
        throttle, partition = self._node.throttles.leader, fetch.partition
        assert partition is not None
        fetch.is_held_back = (
            throttle.covers(partition) and self._replica[0] not in partition.isr and throttle.rest_s > 0
        )
        return fetch.is_held_back

    def _count_throttled(self, answers: list[Found]) -> None:
        """Records of throttled partitions count whoever gets them, in sync or not."""
        throttle = self._node.throttles.leader
        for fetch, found in answers:
            if found.records and fetch.partition is not None and throttle.covers(fetch.partition):
                throttle.record(len(found.records))

    def _find(self, fetch: PartitionFetch) -> PartitionRead | None:
        """Why the partition cannot be read, None if it can."""
        partition = fetch.partition
        fetch.may_follow = self._may_follow
        if partition is None or partition.is_gone:
            fetch.partition = None
            topic, error = self._topic_of(fetch)
            if topic is None:
                return _refusal(error)
            fetch.topic = topic
            partition = self._node.partitions.get(topic, fetch.index)
            if partition is None and self._may_read(topic):
                return _refusal(self._node.partitions.missing_error(self._image, topic, fetch.index))
            fetch.partition = partition
        if partition is None or not self._may_read(partition.topic):
            return PartitionRead(ErrorCode.TOPIC_AUTHORIZATION_FAILED, aborted_transactions=[])
        if self._from_replica:
            error = partition.replica_error(*self._replica, fetch.current_leader_epoch)
            return None if error is ErrorCode.NONE else PartitionRead(error)
        return None

    def _may_read(self, topic: str) -> bool:
        context = self._context
        if self._from_replica:
            return context.may(Operation.CLUSTER_ACTION, Resource.cluster())
        return context.may_everything or context.may(Operation.READ, Resource.topic(topic))

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

    # Waiting

    async def wait(self, missing_bytes: int, timeout_ms: int) -> None:
        if self._turn.given_up and any(map(self._has_advanced, self._read)):
            return
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
            fetch.waiting = waiting
            fetch.watch()
        try:
            await waiting.until_woken(timeout_ms)
        finally:
            for fetch in self._readable:
                fetch.waiting = None
                fetch.release()

    def _has_advanced(self, found: Found) -> bool:
        """Since it was read, which may be some turns ago: nobody watched the partition then."""
        partition, read = found[0].partition, found[1]
        if partition is None or partition.is_gone:
            return True
        if self._from_replica:
            return not read.records and partition.log.log_end_offset > found[0].fetch_offset
        known = read.last_stable_offset if self._read_committed else read.high_watermark
        return partition.readable_end(self._read_committed) != known

    # Answering

    async def answer(self) -> RawResponse:
        version = self._context.api_version
        answers = [*self._read, *self._unreadable] if self._unreadable else self._read
        if self._from_replica:
            self._count_throttled(self._read)
        endpoints: dict[int, NodeEndpoint] = {}
        turn = self._turn
        for place, (fetch, found) in enumerate(answers):
            if found.error_code:
                if turn.is_over:
                    await turn.give_up()
                answers[place] = fetch, self._explain(fetch, found, version, endpoints)
        session = self._session
        if session is not None:
            if session.epoch != self._epoch:
                return await pack_answer(version, session.id, [], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            answers = [(fetch, found) for fetch, found in answers if self._settle(fetch, found)]
        elif self._creates_session:
            cached = [fetch for fetch, _ in answers if isinstance(fetch, CachedPartition)]
            session = self._node.fetch_sessions.create(
                cached, len(cached), self._by_id, self._read_committed, self._from_replica
            )
            if session is not None:
                self._node.fetch_sessions.own(session, self._context.session)
                for fetch, found in answers:
                    if turn.is_over:
                        await turn.give_up()
                    self._settle(fetch, found, first=True)
        session_id = INVALID_SESSION_ID if session is None else session.id
        return await pack_answer(version, session_id, answers, 0, list(endpoints.values()))

    def _settle(self, fetch: PartitionFetch, found: PartitionRead, *, first: bool = False) -> bool:
        assert isinstance(fetch, CachedPartition)
        return fetch.settle(found, fetch.readable_end(self._read_committed), first=first)

    def _explain(
        self, fetch: PartitionFetch, found: PartitionRead, version: int, endpoints: dict[int, NodeEndpoint]
    ) -> PartitionRead:
        """An error as the version can say it, with the leader where this node is not it."""
        if found.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < STORAGE_ERRORS_SINCE:
            return found._replace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if version < ENDPOINTS_SINCE or found.error_code not in ELSEWHERE:
            return found
        leader = current_leader(self._image, fetch.topic or "", fetch.index)
        endpoint = leader_endpoint(self._image, leader, self._context.listener)
        if endpoint is not None and not self._from_replica:
            endpoints[endpoint.node_id] = NodeEndpoint(**endpoint._asdict())
        return found._replace(current_leader=leader)


def _refusal(error: ErrorCode) -> PartitionRead:
    """Kafka finds partitions that are not hosted only when it reads, and then lists no aborted transactions."""
    late = error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionRead(error, aborted_transactions=None if late else [])
