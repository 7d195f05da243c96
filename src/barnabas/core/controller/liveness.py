"""Which brokers are there: sessions that heartbeats keep, and what follows when one ends or a broker leaves.

The states of a broker, and what brings it from one to the next:

    (registered) -> FENCED          it registers, and has not caught up with its registration yet
    FENCED       -> UNFENCED        it asks for it, and has applied its own registration
    UNFENCED     -> FENCED          it asks for it, or its session ends
    UNFENCED     -> SHUTTING_DOWN   it asks to shut down and leads partitions: these get other leaders; again, if it was
                                    fenced meanwhile and an older heartbeat, overtaken by others, had it back in service
    UNFENCED, FENCED, SHUTTING_DOWN -> GONE   it asks to shut down and leads nothing; every active broker knows that

`Sessions` is soft state: when it last heard of each broker, how far that broker has applied the metadata log, and at
which offset its shutdown began. A new active controller gives every unfenced broker a whole session from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.directories import directory_of, is_online
from barnabas.core.controller.partition_changes import Election, PartitionChange
from barnabas.core.controller.placement import is_active
from barnabas.core.metadata.records import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.core.metadata.state import NO_LEADER, BrokerState, MetadataImage, PartitionState
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

FENCE, UNFENCE = 1, -1
NOBODY = -1
CORDONS_SINCE_LEVEL = 30


@dataclass(slots=True)
class BrokerSession:
    epoch: int
    heard_at_ms: int | None = None  # of the last heartbeat; None: only registered
    metadata_offset: int = -1
    registered_offset: int = -1  # of its registration's record; it has caught up once it has applied that
    shutdown_offset: int | None = None


@dataclass(slots=True)
class TopicRules:
    """What elections must know of a topic's configuration."""

    min_insync_replicas: Callable[[str], int]
    unclean_election: Callable[[str], bool]


@dataclass(slots=True)
class Sessions:
    timeout_ms: int
    by_broker: dict[int, BrokerSession] = field(default_factory=dict)

    @classmethod
    def begin(cls, image: MetadataImage, timeout_ms: int, now_ms: int) -> Sessions:
        """Of a new active controller."""
        sessions = cls(timeout_ms)
        for broker in image.brokers.values():
            heard_at_ms = None if broker.fenced else now_ms
            sessions.by_broker[broker.id] = BrokerSession(broker.epoch, heard_at_ms, registered_offset=broker.epoch)
        return sessions

    def register(self, broker_id: int, epoch: int, offset: int) -> None:
        self.by_broker[broker_id] = BrokerSession(epoch, registered_offset=offset)

    def is_valid(self, broker: BrokerState, now_ms: int) -> bool:
        session = self.by_broker.get(broker.id)
        if session is None or session.epoch != broker.epoch or session.heard_at_ms is None:
            return False
        return now_ms - session.heard_at_ms < self.timeout_ms

    def touch(self, broker_id: int, now_ms: int) -> None:
        session = self.by_broker.get(broker_id)
        if session is not None:
            session.heard_at_ms = now_ms

    def heard_since(self, broker_id: int, since_ms: int) -> bool:
        session = self.by_broker.get(broker_id)
        return session is not None and session.heard_at_ms is not None and session.heard_at_ms >= since_ms

    def expire(self, broker_id: int, epoch: int) -> None:
        """The process of this registration is known to be gone."""
        session = self.by_broker.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.heard_at_ms = None

    def forget(self, broker_id: int) -> None:
        self.by_broker.pop(broker_id, None)

    def expired(self, image: MetadataImage, now_ms: int) -> list[int]:
        """The unfenced brokers that were not heard of for too long."""
        return [
            broker.id for broker in image.brokers.values() if not broker.fenced and not self.is_valid(broker, now_ms)
        ]

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """What every broker in service has applied; None if there is none in service."""
        offsets = [
            session.metadata_offset
            for broker_id, session in self.by_broker.items()
            if (broker := image.brokers.get(broker_id)) is not None and is_active(broker)
        ]
        return min(offsets, default=None)


def heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest, sessions: Sessions, rules: TopicRules, now_ms: int
) -> ControllerDecision[BrokerHeartbeatResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {request.broker_id} is not registered in epoch {request.broker_epoch}.",
        )
    session = sessions.by_broker.setdefault(broker.id, BrokerSession(broker.epoch, registered_offset=broker.epoch))
    is_caught_up = request.current_metadata_offset >= session.registered_offset
    session.heard_at_ms, session.metadata_offset = now_ms, request.current_metadata_offset
    records: list[Record] = []
    is_fenced, goes = broker.fenced, False
    if broker.fenced:
        session.shutdown_offset = None
        if request.want_shut_down:
            goes = True
            records += fence(image, broker, rules)
        elif not request.want_fence and is_caught_up:
            is_fenced = False
            records += unfence(image, broker, rules)
    elif broker.in_controlled_shutdown and leads_any(image, broker.id):
        if request.want_shut_down and session.shutdown_offset is None:
            records += leave_isr(image, broker.id, rules)
            session.shutdown_offset = image.offset + len(records)
    elif broker.in_controlled_shutdown:
        goes = _everybody_knows(image, session, sessions)
    elif request.want_fence or (request.want_shut_down and not leads_any(image, broker.id)):
        goes = request.want_shut_down
        is_fenced = True
    elif request.want_shut_down:
        records += begin_shutdown(image, broker, rules)
        session.shutdown_offset = image.offset + len(records)
    if not broker.fenced and (goes or is_fenced):
        is_fenced = True
        session.shutdown_offset = None
        records += fence(image, broker, rules)
    records += _directories_changed(image, broker, request, rules)
    response = BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=is_fenced, should_shut_down=goes)
    return ControllerDecision(records, response, is_atomic=False)


def _everybody_knows(image: MetadataImage, session: BrokerSession, sessions: Sessions) -> bool:
    """Whether all others have applied that the broker leads nothing, so that no request of theirs is sent to it."""
    lowest = sessions.lowest_active_offset(image)
    if session.shutdown_offset is None:  # a former controller began the shutdown
        session.shutdown_offset = image.offset
    return lowest is None or session.shutdown_offset <= lowest


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(each.leader == broker_id for each in _partitions(image))


def fence(image: MetadataImage, broker: BrokerState, rules: TopicRules) -> list[Record]:
    """The broker leads nothing and is in sync with nobody any more; then it is fenced."""
    return [
        *leave_isr(image, broker.id, rules),
        wire.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE),
    ]


def unfence(image: MetadataImage, broker: BrokerState, rules: TopicRules) -> list[Record]:
    """The broker is in service: it leads what nobody else could lead."""
    change = wire.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    leaderless = (each for each in _partitions(image) if each.leader == NO_LEADER)
    return [change, *change_leaders(image, leaderless, rules, joining=broker.id)]


def begin_shutdown(image: MetadataImage, broker: BrokerState, rules: TopicRules) -> list[Record]:
    change = wire.BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
    )
    return [change, *leave_isr(image, broker.id, rules)]


def leave_isr(image: MetadataImage, broker_id: int, rules: TopicRules) -> Iterator[Record]:
    in_sync = (each for each in _partitions(image) if broker_id in each.isr)
    return change_leaders(image, in_sync, rules, leaving=broker_id)


def stop_uncleanly(image: MetadataImage, broker_id: int, rules: TopicRules) -> Iterator[Record]:
    """The broker may have lost the end of its logs: where eligible leaders are tracked, it is not one of them."""
    if not tracks_eligible_leaders(image):
        return leave_isr(image, broker_id, rules)
    concerned = (
        each for each in _partitions(image) if broker_id in each.isr or broker_id in each.eligible_leader_replicas
    )
    return change_leaders(image, concerned, rules, unclean=broker_id)


def change_leaders(
    image: MetadataImage,
    partitions: Iterable[PartitionState],
    rules: TopicRules,
    *,
    leaving: int = NOBODY,
    joining: int = NOBODY,
    unclean: int = NOBODY,
) -> Iterator[Record]:
    for partition in partitions:

        def acceptable(replica: int, partition: PartitionState = partition) -> bool:
            broker = image.brokers.get(replica)
            if broker is None or replica in (leaving, unclean):
                return False
            return (replica == joining or is_active(broker)) and is_online(broker, directory_of(partition, replica))

        change = PartitionChange(
            partition=partition,
            acceptable=acceptable,
            min_insync_replicas=effective_min_insync(image, partition, rules),
            tracks_eligible_leaders=tracks_eligible_leaders(image),
            isr=[replica for replica in partition.isr if replica not in (leaving, unclean)],
            unclean_shutdown=[unclean] if unclean != NOBODY else [],
            election=Election.UNCLEAN if rules.unclean_election(partition.topic) else Election.ONLINE,
        )
        record = change.record(image)
        if record is not None:
            yield record


def tracks_eligible_leaders(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


def effective_min_insync(image: MetadataImage, partition: PartitionState, rules: TopicRules) -> int:
    """A topic with fewer replicas than `min.insync.replicas` needs all it has."""
    first = image.topics[partition.topic].partitions.get(0, partition)
    return min(rules.min_insync_replicas(partition.topic), len(first.replicas))


def _directories_changed(
    image: MetadataImage, broker: BrokerState, request: BrokerHeartbeatRequest, rules: TopicRules
) -> list[Record]:
    records: list[Record] = []
    lost = [directory for directory in broker.log_dirs if directory in request.offline_log_dirs]
    left = [directory for directory in broker.log_dirs if directory not in lost]
    if lost:
        for directory in lost:
            records += change_leaders(image, _lying_in(image, broker.id, directory), rules, leaving=broker.id)
        records.append(
            wire.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
        )
    known, told = broker.cordoned_log_dirs, request.cordoned_log_dirs
    is_new = told is not None and (known is None or set(told) != set(known))
    if told is not None and is_new and image.metadata_version >= CORDONS_SINCE_LEVEL:
        records.append(
            wire.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(told)
            )
        )
    return records


def _lying_in(image: MetadataImage, broker_id: int, directory: Uuid) -> Iterator[PartitionState]:
    return (
        each for each in _partitions(image) if broker_id in each.replicas and directory_of(each, broker_id) == directory
    )


def _partitions(image: MetadataImage) -> Iterator[PartitionState]:
    for topic in image.topics.values():
        yield from topic.partitions.values()
