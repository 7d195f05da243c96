"""How a broker makes itself known to the controller, stays in service, tells of its disks, and leaves.

    register         -> registered, fenced
    wait_caught_up   -> its own image has everything up to its registration: it may open its logs
    unfence          -> in service: clients are sent here
    (heartbeats)     -> in service, as long as the controller hears of it
    hand_over        -> others lead what it led; the controller lets it go
    leave            -> fenced, if it has not been let go before

The broker in the process of a controller that is the whole quorum is in service with its registration, and leaves in
one step. All others go the whole way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.core.metadata.records import SUPPORTED_FEATURES
from barnabas.core.metadata.state import Endpoint, MetadataDelta, MetadataImage
from barnabas.node.broker.channel import ToController
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import broker_registration, controller_registration
from barnabas.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.wire.messages.controller_registration import ControllerRegistrationRequest
from barnabas.wire.uuids import Uuid

# As many as Kafka's brokers put into one request.
REPLICAS_PER_ASSIGNMENT = 2250
REGISTRATION_PAUSE_S = 0.2
CATCH_UP_PAUSE_S = 0.01
SHUTDOWN_PAUSE_S = 0.05
# A controller answers with a code alone; this is what it means to whoever starts the node.
REFUSALS = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process has its node.id, and was heard of within its session",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controllers are of another cluster",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster has levels of features that this node does not support",
    ErrorCode.INVALID_REGISTRATION: "the controllers do not take its log directories or its features",
}
# Trying again changes nothing.
NEVER_TAKEN = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION)

log = logging.getLogger("barnabas.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What this process is: with which ports it listens, what it can do, where it keeps its data."""

    node_id: int
    cluster_id: str
    incarnation_id: Uuid
    broker_endpoints: Sequence[Endpoint]
    controller_endpoints: Sequence[Endpoint]
    log_dirs: Sequence[Uuid]
    rack: str | None = None
    # Of the registration that was given up at the last clean stop; -1 if there was none.
    previous_epoch: int = -1
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict(SUPPORTED_FEATURES))

    def of_controller(self) -> ControllerRegistrationRequest:
        wire = controller_registration
        return ControllerRegistrationRequest(
            controller_id=self.node_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                wire.Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in self.controller_endpoints
            ],
            features=[
                wire.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self.features.items())
            ],
        )

    def of_broker(self) -> BrokerRegistrationRequest:
        wire = broker_registration
        return BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                wire.Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in self.broker_endpoints
            ],
            features=[
                wire.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(self.features.items())
            ],
            rack=self.rack,
            log_dirs=list(self.log_dirs),
            previous_broker_epoch=self.previous_epoch,
        )


class BrokerLife:
    def __init__(
        self,
        registration: Registration,
        controller: ToController,
        applied_offset: Callable[[], int] | None = None,
        heartbeat_interval_ms: int = 2000,
    ) -> None:
        """`applied_offset` is how far this node has applied the metadata."""
        self.epoch = -1
        self._registration = registration
        self._controller = controller
        self._applied_offset = applied_offset
        self._interval_s = heartbeat_interval_ms / 1000
        self._wants_fence = False
        self._has_handed_over = False
        self._heartbeats: asyncio.Task[None] | None = None
        self._is_awaited = asyncio.Event()  # somebody waits for the next heartbeat
        self._lost: list[Uuid] = []  # log directories that have failed since the start

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """A broker that leaves is let go when the others have told that they know: they do not let it wait."""
        if delta.brokers_changed and any(
            broker.in_controlled_shutdown and not broker.fenced and broker.id != self._registration.node_id
            for broker in image.brokers.values()
        ):
            self._is_awaited.set()

    async def register(self, timeout_s: float = 0.0) -> None:
        """Tries again until the time is over, unless the controller will never take this broker."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        request = self._registration.of_broker()
        request.log_dirs = [each for each in request.log_dirs if each not in self._lost]
        while True:
            left_s = max(deadline - asyncio.get_running_loop().time(), 1.0)
            try:
                answer: BrokerRegistrationResponse = await self._controller.request(request, left_s)
            except KafkaError as error:
                why = REFUSALS.get(error.code, error.message)
                if error.code in NEVER_TAKEN or asyncio.get_running_loop().time() >= deadline:
                    raise KafkaError(error.code, why) from error
                log.warning("Broker %d cannot register yet: %s", self._registration.node_id, why)
                await asyncio.sleep(REGISTRATION_PAUSE_S)
            else:
                self.epoch = answer.broker_epoch
                return

    async def wait_caught_up(self) -> None:
        """Until this node has applied its own registration, as the controller sees it."""
        self._wants_fence = True
        await self._beat_until(lambda answer: answer.is_caught_up)

    async def unfence(self) -> None:
        """Takes the broker into service, and keeps it there."""
        self._wants_fence = False
        await self._beat_until(lambda answer: not answer.is_fenced)
        self.start_heartbeats()

    async def _beat_until(
        self, holds: Callable[[BrokerHeartbeatResponse], bool], *, want_shut_down: bool = False
    ) -> None:
        """A broker that wants to leave does not wait for a controller that is not there."""
        while True:
            try:
                if holds(await self._beat(want_shut_down=want_shut_down)):
                    return
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT or want_shut_down:
                    raise
            await asyncio.sleep(SHUTDOWN_PAUSE_S if want_shut_down else CATCH_UP_PAUSE_S)

    def start_heartbeats(self) -> None:
        self._heartbeats = asyncio.get_running_loop().create_task(self._keep_alive(), name="broker-heartbeats")

    async def hand_over(self, timeout_s: float) -> None:
        """A controlled shutdown: others lead what this broker leads, then the controller lets it go."""
        await self._stop_heartbeats()
        try:
            async with asyncio.timeout(timeout_s):
                await self._beat_until(lambda answer: answer.should_shut_down, want_shut_down=True)
        except (KafkaError, TimeoutError) as error:
            why = getattr(error, "message", "") or f"no controller has let it go within {timeout_s:g} s"
            log.warning("Broker %d stops without a controlled shutdown: %s", self._registration.node_id, why)
        self._has_handed_over = True

    async def stop(self) -> None:
        await self._stop_heartbeats()

    async def _stop_heartbeats(self) -> None:
        heartbeats, self._heartbeats = self._heartbeats, None
        if heartbeats is not None:
            heartbeats.cancel()
            await asyncio.wait([heartbeats])

    async def _keep_alive(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._is_awaited.wait()
            self._is_awaited.clear()
            try:
                await self._beat()
            except KafkaError as error:
                log.warning("A heartbeat of broker %d failed: %s", self._registration.node_id, error.message)
                if error.code is ErrorCode.STALE_BROKER_EPOCH:
                    await self._register_again()

    async def _register_again(self) -> None:
        """A late request of a former process of this broker has taken its place: nobody else would make room."""
        try:
            await self.register()
            log.info("Broker %d has registered again, in epoch %d", self._registration.node_id, self.epoch)
        except KafkaError as error:
            log.warning("Broker %d cannot register again yet: %s", self._registration.node_id, error.message)

    async def _beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        request = self._heartbeat(want_shut_down=want_shut_down)
        answer: BrokerHeartbeatResponse = await self._controller.request(request, max(self._interval_s, 1.0))
        return answer

    async def allocate_producer_ids(self) -> range:
        request = AllocateProducerIdsRequest(broker_id=self._registration.node_id, broker_epoch=self.epoch)
        response: AllocateProducerIdsResponse = await self._controller.request(request)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    async def assign_replicas(self, directories: Mapping[tuple[Uuid, int], Uuid]) -> None:
        """Tells in which directory each of these replicas, named by topic id and partition, lies."""
        told = list(directories.items())
        for start in range(0, len(told), REPLICAS_PER_ASSIGNMENT):
            request = AssignReplicasToDirsRequest(broker_id=self._registration.node_id, broker_epoch=self.epoch)
            by_directory: dict[Uuid, dict[Uuid, list[PartitionData]]] = {}
            for (topic_id, index), directory in told[start : start + REPLICAS_PER_ASSIGNMENT]:
                topics = by_directory.setdefault(directory, {})
                topics.setdefault(topic_id, []).append(PartitionData(partition_index=index))
            request.directories = [
                DirectoryData(
                    id=directory,
                    topics=[TopicData(topic_id=each, partitions=partitions) for each, partitions in topics.items()],
                )
                for directory, topics in by_directory.items()
            ]
            await self._controller.request(request)

    async def report_lost_directory(self, directory_id: Uuid, path: str) -> None:
        """Clients learn by this that the partitions in it have no leader here. All later heartbeats say it too."""
        self._lost.append(directory_id)
        try:
            await self._controller.request(self._heartbeat())
        except KafkaError as error:
            log.warning(
                "could not tell the controller yet that the log directory %s has failed: %s", path, error.message
            )

    async def leave(self) -> None:
        """Gives up the leaderships and fences this broker: whoever opens the directories next need not wait."""
        await self._stop_heartbeats()
        if self._has_handed_over:
            return
        try:
            await self._controller.request(self._heartbeat(want_shut_down=True))
        except KafkaError as error:
            log.warning("the broker stops without deregistering: %s", error.message)

    def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=self._registration.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.epoch if self._applied_offset is None else self._applied_offset(),
            want_fence=self._wants_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._lost),
        )
