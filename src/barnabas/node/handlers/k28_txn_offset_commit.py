"""TxnOffsetCommit, versions 0 to 5: offsets of a group that become valid if a producer's transaction is committed.

2 brought the leader epoch, 3 the member, generation and instance, by which zombies are fenced, and compact encoding, 4
TRANSACTION_ABORTABLE, 5 needs no AddOffsetsToTxn before it. Deviations from Kafka: partitions are answered in the order
asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.coordinator.decision import Producer
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import TopicPartition
from barnabas.node.broker.transactions.verification import VERIFICATIONS_MAX, Writer, verify
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Coordinators

LOADING_SINCE = 2
ABORTABLE_SINCE = 4
ADDS_SINCE = 5
COMMITS_AT_ONCE = 1_000

Errors = dict[TopicPartition, ErrorCode]


async def handle(
    context: RequestContext, request: TxnOffsetCommitRequest, node: Coordinators
) -> TxnOffsetCommitResponse:
    context.authorize(Operation.WRITE, Resource.transactional_id(request.transactional_id))
    context.authorize(Operation.READ, Resource.group(request.group_id))
    errors: Errors = {}
    commits: list[Commit] = []
    async for topic in in_turns(request.topics):
        may_read = context.may(Operation.READ, Resource.topic(topic.name))
        known = node.image.topics.get(topic.name)
        async for each in in_turns(topic.partitions):
            at = (topic.name, each.partition_index)
            if not may_read:
                errors[at] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or each.partition_index not in known.partitions:
                errors[at] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                errors[at] = ErrorCode.NONE
                commits.append(Commit(*at, each.committed_offset, each.committed_leader_epoch, each.committed_metadata))
    async for start in in_turns(range(0, len(commits), COMMITS_AT_ONCE)):
        errors |= await _commit(context, request, commits[start : start + COMMITS_AT_ONCE], node)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=errors[topic.name, each.partition_index]
                    )
                    async for each in in_turns(topic.partitions)
                ],
            )
            async for topic in in_turns(request.topics)
        ]
    )


def error_response(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error.code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, commits: list[Commit], node: Coordinators
) -> Errors:
    partitions = [(commit.topic, commit.partition) for commit in commits]
    committer = Committer(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        index = node.groups.partition_for(request.group_id)
        node.groups.led(index)
        await _verify(context, request, index, node)
        decided = await node.groups.submit_to(
            index, lambda shard: shard.commits.commit_in_transaction(committer, commits, producer)
        )
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.api_version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return dict.fromkeys(partitions, code)
    return dict(zip(partitions, decided, strict=True))


async def _verify(context: RequestContext, request: TxnOffsetCommitRequest, index: int, node: Coordinators) -> None:
    producers = node.groups.led(index).partition.log.producers
    at = (node.groups.topic, index)
    writer = Writer(request.transactional_id, request.producer_id, request.producer_epoch)
    for _ in range(VERIFICATIONS_MAX):
        if producers.has_ongoing_transaction(request.producer_id, request.producer_epoch):
            return
        verification = producers.begin_verification(
            request.producer_id, request.producer_epoch, 0, node.clock(), begins_at_zero=False
        )
        refused = await verify(
            node,
            writer,
            [at],
            adds=context.api_version >= ADDS_SINCE,
            knows_abortable=context.api_version >= ABORTABLE_SINCE,
        )
        if refused:
            code = refused[at].code
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.NOT_ENOUGH_REPLICAS else code,
                refused[at].message or "",
            )
        if producers.is_verified(request.producer_id, request.producer_epoch, verification):
            return
    raise KafkaError(ErrorCode.INVALID_TXN_STATE, "The transaction has ended meanwhile.")
