"""OffsetCommit, versions 2 to 10: how far a group has come, from one of its members or from somebody without one.

Until 4 the client said how long to keep the offset, 6 brought leader epochs, 7 static members, 9 member epochs of the
consumer protocol, 10 topic ids. Deviations from Kafka: a commit of more than a thousand partitions is written in
pieces, of which a later one may fail; Kafka refuses it whole if its records are too large for one batch.

Consumers send little else as often, so the answer is packed by hand and the commit written at once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.security.model import Operation, Resource
from barnabas.node.requests import RequestContext
from barnabas.node.turns import Turn, in_turns
from barnabas.wire.codec import put_uvarint
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from barnabas.wire.schema import Response

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

THROTTLE_TIME = 3
FLEXIBLE = 8
KNOWS_GROUP_ID_NOT_FOUND = 9
TOPIC_IDS = 10
# A commit of more partitions is decided and written in pieces, which others can come between.
COMMITS_AT_ONCE = 1_000

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ih")
_PARTITION_AND_NO_TAGS = struct.Struct(">ihB")


async def handle(context: RequestContext, request: OffsetCommitRequest, node: Groups) -> Response:
    if not context.may_everything:
        context.authorize(Operation.READ, Resource.group(request.group_id))
    topics, version = node.image.topics, context.api_version
    answers: list[list[int]] = []
    commits: list[Commit] = []
    places: list[tuple[list[int], int]] = []
    turn = Turn()
    for topic in request.topics:
        if turn.is_over:
            await turn.give_up()
        name, error = _find_topic(context, topic, node)
        codes = [int(error)] * len(topic.partitions)
        answers.append(codes)
        if error is not ErrorCode.NONE:
            continue
        partitions = topics[name].partitions
        for place, each in enumerate(topic.partitions):
            if place and turn.is_over:
                await turn.give_up()
            index = each.partition_index
            if index not in partitions:
                codes[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            epoch, metadata = each.committed_leader_epoch, each.committed_metadata
            commits.append(Commit(name, index, each.committed_offset, epoch, metadata))
            places.append((codes, place))
    if len(commits) <= COMMITS_AT_ONCE:
        results = await _commit(version, request, commits, node) if commits or not request.topics else []
    else:
        results = []
        async for start in in_turns(range(0, len(commits), COMMITS_AT_ONCE)):
            results += await _commit(version, request, commits[start : start + COMMITS_AT_ONCE], node)
    for (codes, place), code in zip(places, results, strict=True):
        codes[place] = code
    return Committed(request.topics, answers)


def error_response(request: OffsetCommitRequest, error: KafkaError) -> Response:
    return Committed(request.topics, [[error.code] * len(topic.partitions) for topic in request.topics])


async def _commit(
    api_version: int, request: OffsetCommitRequest, commits: list[Commit], node: Groups
) -> list[ErrorCode]:
    group_id, retention_ms = request.group_id, request.retention_time_ms
    member_id, instance_id = request.member_id, request.group_instance_id
    committer = Committer(group_id, member_id, instance_id, request.generation_id_or_member_epoch)
    knows = api_version >= KNOWS_GROUP_ID_NOT_FOUND
    no_group = ErrorCode.GROUP_ID_NOT_FOUND if knows else ErrorCode.ILLEGAL_GENERATION
    try:
        return await node.groups.submit_at_once(
            group_id,
            lambda shard: shard.commits.commit(
                committer, commits, retention_ms=retention_ms, no_group=no_group, knows_epochs=knows
            ),
        )
    except KafkaError as error:
        return [error.code] * len(commits)


def _find_topic(context: RequestContext, topic: OffsetCommitRequestTopic, node: Groups) -> tuple[str, ErrorCode]:
    name: str | None = topic.name
    if context.api_version >= TOPIC_IDS:
        name = node.image.topic_names.get(topic.topic_id)
        if name is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
    assert name is not None
    if not context.may_everything and not context.may(Operation.READ, Resource.topic(name)):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, ErrorCode.NONE if name in node.image.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Committed(Response):
    """The topics and partitions of the request, each partition with its error: as OffsetCommitResponse is encoded."""

    def __init__(self, topics: list[OffsetCommitRequestTopic], codes: list[list[int]]) -> None:
        self.topics = topics
        self.codes = codes
        self.throttle_time_ms = 0

    def encode_into(self, out: bytearray, version: int) -> None:
        if version >= THROTTLE_TIME:
            out += _INT32.pack(self.throttle_time_ms)
        if version >= FLEXIBLE:
            self._pack_compact(out, version)
        else:
            self._pack_plain(out)

    def _pack_compact(self, out: bytearray, version: int) -> None:
        put_uvarint(out, len(self.topics) + 1)
        for topic, codes in zip(self.topics, self.codes, strict=True):
            if version >= TOPIC_IDS:
                out += topic.topic_id
            else:
                name = topic.name.encode()
                put_uvarint(out, len(name) + 1)
                out += name
            put_uvarint(out, len(codes) + 1)
            for each, code in zip(topic.partitions, codes, strict=True):
                out += _PARTITION_AND_NO_TAGS.pack(each.partition_index, code, 0)
            out.append(0)
        out.append(0)

    def _pack_plain(self, out: bytearray) -> None:
        out += _INT32.pack(len(self.topics))
        for topic, codes in zip(self.topics, self.codes, strict=True):
            name = topic.name.encode()
            out += _INT16.pack(len(name))
            out += name
            out += _INT32.pack(len(codes))
            for each, code in zip(topic.partitions, codes, strict=True):
                out += _PARTITION.pack(each.partition_index, code)
