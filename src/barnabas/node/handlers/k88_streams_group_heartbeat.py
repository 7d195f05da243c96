"""StreamsGroupHeartbeat, version 0: a thread of a Kafka Streams application joins its group, stays or leaves.

Internal topics that the topology needs are created on the way, if the caller may create them: the heartbeat is answered
at once and says that they are missing, and one that follows says why they could not be created.

Deviations from Kafka: a topology that names a subtopology twice, has a negative epoch or a copartition group of topics
that are not there is told STREAMS_INVALID_TOPOLOGY, where Kafka says UNKNOWN_SERVER_ERROR; a member with an endpoint
that joins while source topics are missing is told so, where Kafka says UNKNOWN_SERVER_ERROR; a member that says that it
owns other tasks than it should is told its tasks again, since it may have missed an answer, unless its next ones are
delayed; internal topics are created in the name of the broker after the caller's right was checked: they do not count
for its quota; a topology of more than 500 subtopologies is told STREAMS_INVALID_TOPOLOGY, since a heartbeat is decided
in one turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import INTERNAL_TOPICS, name_error
from barnabas.core.groups.modern import LEAVING_FOR_A_WHILE
from barnabas.core.groups.streams.decide import JOINING, NO_TIMEOUT
from barnabas.core.groups.streams.topology import StatusCode
from barnabas.core.security.model import Operation, Resource
from barnabas.node.handlers.group_protocols import require_streams_protocol
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic
from barnabas.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

if TYPE_CHECKING:
    from barnabas.node.ports import StreamsGroups

ERRORS_SHOWN = 3
SUBTOPOLOGIES_MAX = 500


async def handle(
    context: RequestContext, request: StreamsGroupHeartbeatRequest, node: StreamsGroups
) -> StreamsGroupHeartbeatResponse:
    try:
        require_streams_protocol(node)
        if not context.may(Operation.READ, Resource.group(request.group_id)):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if request.topology is not None:
            await _check_topics(context, request.topology)
        _check(request)
        client_id, client_host = context.client_id or "", f"/{context.client_host}"
        answer = await node.groups.submit(
            request.group_id, lambda shard: shard.members.streams_heartbeat(request, client_id, client_host)
        )
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message or None)
    if answer.to_create:
        _create(context, request.group_id, answer.to_create, answer.response, node)
    return answer.response


async def _check_topics(context: RequestContext, topology: Topology) -> None:
    if len(topology.subtopologies) > SUBTOPOLOGIES_MAX:
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"The topology has {len(topology.subtopologies)} subtopologies; {SUBTOPOLOGIES_MAX} are allowed.",
        )
    names: dict[str, None] = {}
    async for each in in_turns(topology.subtopologies):
        names |= dict.fromkeys([*each.source_topics, *each.repartition_sink_topics])
        names |= dict.fromkeys(info.name for info in (*each.repartition_source_topics, *each.state_changelog_topics))
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        listed = ",".join(internal)
        raise KafkaError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {listed} in a Kafka Streams topology is prohibited.",
        )
    invalid = [name async for name in in_turns(names) if name_error(name) is not None]
    if invalid:
        listed = ",".join(invalid)
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"Topic names {listed} are not valid topic names.")
    async for name in in_turns(names):
        if not context.may(Operation.DESCRIBE, Resource.topic(name)):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _check(request: StreamsGroupHeartbeatRequest) -> None:
    joins, topology = request.member_epoch == JOINING, request.topology
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    _require(request.instance_id is None, "Static membership is not yet supported.")
    _require(request.task_offsets is None, "TaskOffsets are not supported yet.")
    _require(request.task_end_offsets is None, "TaskEndOffsets are not supported yet.")
    _require(not request.warmup_tasks, "WarmupTasks are not supported yet.")
    has_regex = topology is not None and any(each.source_topic_regex for each in topology.subtopologies)
    _require(not has_regex, "Regular expressions for source topics are not supported yet.")
    _require(bool(request.member_id.strip()), "MemberId can't be empty.")
    _require(bool(request.group_id.strip()), "GroupId can't be empty.")
    _require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    if joins:
        _require(request.rebalance_timeout_ms != NO_TIMEOUT, "RebalanceTimeoutMs must be provided in first request.")
        for name, each in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), tasks, strict=True):
            _require(not each, f"{name} must be empty when (re-)joining.")
        _require(topology is not None, "Topology must be non-null when (re-)joining.")
        _check_changelogs(topology)
    _require(request.member_epoch != LEAVING_FOR_A_WHILE, "InstanceId can't be null.")
    _require(
        request.member_epoch > LEAVING_FOR_A_WHILE,
        f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.",
    )
    says_all = all(each is None for each in tasks) or all(each is not None for each in tasks)
    _require(says_all, "If one task-type is non-null, all must be non-null.")
    _require(joins or topology is None, "Topology can only be provided when (re-)joining.")


def _check_changelogs(topology: Topology | None) -> None:
    for each in topology.subtopologies if topology is not None else ():
        for info in each.state_changelog_topics:
            if info.partitions:
                raise KafkaError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {info.name} must have an undefined partition count, but it is set to"
                    f" {info.partitions}.",
                )


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, otherwise)


def _create(
    context: RequestContext,
    group_id: str,
    topics: Mapping[str, CreatableTopic],
    response: StreamsGroupHeartbeatResponse,
    node: StreamsGroups,
) -> None:
    denied: list[str] = []
    if not context.may(Operation.CREATE, Resource.cluster()):
        denied = [name for name in topics if not context.may(Operation.CREATE, Resource.topic(name))]
    if denied:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    # Whoever beats next may be told what became of it, and after that it is tried again.
    kept_ms = 2 * node.groups.streams_settings(group_id).heartbeat_interval_ms
    errors = node.automatic_topics.create_in_background(topics.values(), kept_ms)
    if errors:
        _add_detail(response, f"Creation failed: {_summary(errors.items())}.")


def _add_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {detail}"
            return
    response.status = [
        *(response.status or ()),
        Status(status_code=StatusCode.MISSING_INTERNAL_TOPICS, status_detail=detail),
    ]


def _summary(errors: Iterable[tuple[str, str]]) -> str:
    listed = [f"{topic} ({error})" for topic, error in errors]
    more = len(listed) - ERRORS_SHOWN
    return ", ".join(listed[:ERRORS_SHOWN]) + (f" and {more} more" if more > 0 else "")
