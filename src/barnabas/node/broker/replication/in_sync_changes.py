"""How a leader's proposals of other in-sync replicas reach the controller: AlterPartition, one request at a time.

All proposals that wait go into the next request. A request that fails as a whole is repeated for as long as it takes,
since nothing else moves those partitions on; a proposal that was overtaken by newer metadata is left out of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from barnabas.core.controller.directories import directory_of, is_online
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.replication.decide import Reaction
from barnabas.core.replication.state import ANY_BROKER_EPOCH, Committed, LeaderState, Proposal
from barnabas.node.broker.channel import ToController
from barnabas.node.broker.partition import Partition
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from barnabas.wire.uuids import Uuid

log = logging.getLogger("barnabas.replication")

RETRY_S = 0.05
PARTITIONS_PER_REQUEST = 2_000


class InSyncChanges:
    """The neighbours of this broker's partitions."""

    def __init__(
        self,
        node_id: int,
        controller: ToController,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        clock: Callable[[], int],
        lag_max_ms: int,
    ) -> None:
        self.lag_max_ms = lag_max_ms
        self._node_id = node_id
        self._controller = controller
        self._image = image
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._waiting: dict[tuple[Uuid, int], tuple[Partition, Proposal]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    # What leaders ask

    def eligible_epoch(self, topic: str, index: int, broker_id: int) -> int | None:
        image = self._image()
        broker = image.brokers.get(broker_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown:
            return None
        state = image.topics[topic].partitions.get(index) if topic in image.topics else None
        if state is not None and not is_online(broker, directory_of(state, broker_id)):
            return None
        return broker.epoch

    def registered_epoch(self, broker_id: int) -> int:
        broker = self._image().brokers.get(broker_id)
        return ANY_BROKER_EPOCH if broker is None else broker.epoch

    def propose(self, partition: Partition, proposal: Proposal) -> None:
        log.info(
            "%s: the leader %d proposes in-sync replicas %s instead of %s",
            partition.log.name,
            self._node_id,
            list(proposal.ids),
            list(partition.isr),
        )
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        if self._task is None and not self._is_stopped:
            self._task = asyncio.get_running_loop().create_task(self._tell_all(), name="in-sync-changes")

    async def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    # Telling the controller

    async def _tell_all(self) -> None:
        try:
            while self._waiting:
                await self._tell()
        finally:
            self._task = None

    async def _tell(self) -> None:
        told = {
            key: (partition, proposal)
            for key, (partition, proposal) in list(self._waiting.items())[:PARTITIONS_PER_REQUEST]
            if _is_open(partition, proposal)
        }
        for key in list(self._waiting)[:PARTITIONS_PER_REQUEST]:
            del self._waiting[key]
        if not told:
            return
        try:
            response: AlterPartitionResponse = await self._controller.request(self._request(told))
            error = ErrorCode(response.error_code)
        except KafkaError as failure:
            response, error = AlterPartitionResponse(), failure.code
        except Exception:
            log.exception("could not send the in-sync replicas to the controller; trying again")
            response, error = AlterPartitionResponse(), ErrorCode.UNKNOWN_SERVER_ERROR
        if error is not ErrorCode.NONE:
            self._waiting = told | self._waiting
            await asyncio.sleep(RETRY_S)
            return
        self._take(told, response)
        if self._waiting:
            await asyncio.sleep(RETRY_S)

    def _request(self, told: dict[tuple[Uuid, int], tuple[Partition, Proposal]]) -> AlterPartitionRequest:
        topics: dict[Uuid, TopicData] = {}
        for (topic_id, index), (_, proposal) in told.items():
            members = [BrokerState(broker_id=replica, broker_epoch=epoch) for replica, epoch in proposal.in_sync]
            topics.setdefault(topic_id, TopicData(topic_id=topic_id)).partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _take(self, told: dict[tuple[Uuid, int], tuple[Partition, Proposal]], response: AlterPartitionResponse) -> None:
        now_ms = self._clock()
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                partition, proposal = told.pop(key, (None, None))
                if partition is not None and proposal is not None:
                    self._answered(key, partition, proposal, answer, now_ms)
        self._waiting = told | self._waiting  # what the answer leaves out is asked again

    def _answered(
        self,
        key: tuple[Uuid, int],
        partition: Partition,
        proposal: Proposal,
        answer: ResponsePartitionData,
        now_ms: int,
    ) -> None:
        if not answer.error_code:
            if answer.leader_id == self._node_id:
                committed = Committed(answer.leader_epoch, answer.partition_epoch, (), tuple(answer.isr))
                partition.proposal_accepted(committed, now_ms)
            return
        try:
            error = ErrorCode(answer.error_code)
        except ValueError:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        reaction = partition.proposal_refused(proposal, error)
        log.info(
            "%s: the controller refused in-sync replicas %s: %s", partition.log.name, list(proposal.ids), error.name
        )
        if reaction is Reaction.RETRY:
            self._waiting.setdefault(key, (partition, proposal))


def _is_open(partition: Partition, proposal: Proposal) -> bool:
    replication = partition.replication
    return not partition.is_gone and isinstance(replication, LeaderState) and replication.proposal is proposal
