"""Members of a streams group on a stage: threads of processes, and the topology that they run."""

from __future__ import annotations

from typing import Any

from barnabas.core.coordinator.promise import Promise
from barnabas.core.groups.streams.decide import HeartbeatAnswer
from barnabas.core.groups.streams.group import StreamsGroup
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.streams_group_heartbeat import (
    CopartitionGroup,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.unit.core.groups.stage import Stage

Owned = dict[str, list[int]]


def word_count(epoch: int = 0) -> Topology:
    """Lines are split and written to a repartition topic; words are counted in a store with a changelog."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=["lines"], repartition_sink_topics=["words"]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name="words")],
                state_changelog_topics=[TopicInfo(name="counts")],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ],
    )


def counting(source: str = "lines") -> Topology:
    """One subtopology with state."""
    store = [TopicInfo(name="counts")]
    return Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=[source], state_changelog_topics=store)]
    )


def beat(stage: Stage, member_id: str, epoch: int, **fields: Any) -> Promise[HeartbeatAnswer]:
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    return stage.run(lambda shard: shard.members.streams_heartbeat(request, "client", "/host"))


def join(stage: Stage, member_id: str, topology: Topology, process: str = "", **fields: Any) -> HeartbeatAnswer:
    tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    given = {"rebalance_timeout_ms": 30_000, "topology": topology, "process_id": process or member_id, **tasks}
    return beat(stage, member_id, 0, **{**given, **fields}).result()


def listed(tasks: Owned) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=partitions) for each, partitions in tasks.items()]


def shown(tasks: list[TaskIds] | None) -> Owned | None:
    return None if tasks is None else {each.subtopology_id: each.partitions for each in tasks}


def statuses(response: StreamsGroupHeartbeatResponse) -> list[int]:
    return [each.status_code for each in response.status or ()]


def group_of(stage: Stage) -> StreamsGroup:
    found = stage.shard.groups.get("g")
    assert isinstance(found, StreamsGroup)
    return found


def picture(stage: Stage) -> dict[str, Any]:
    """Everything that records say about the groups of a stage."""
    found: dict[str, Any] = {}
    for name, group in stage.shard.groups.items():
        assert isinstance(group, StreamsGroup)
        found[name] = {
            "epochs": group.epochs,
            "validated": group.validated,
            "topology": None if group.topology is None else group.topology.value,
            "members": dict(group.members.items()),
            "targets": dict(group.targets.items()),
            "topics": dict(group.topics.items()),
            "active": dict(group._active.items()),
            "standby": dict(group._standby.items()),
            "state": group.state_name,
        }
    return found


class Thread:
    """A member that does as it is told, and starts over when it is told that it is unknown or fenced."""

    def __init__(self, stage: Stage, member_id: str, process: str, topology: Topology) -> None:
        self._stage = stage
        self._topology = topology
        self.id = member_id
        self.process = process
        self.forget()

    def forget(self) -> None:
        self.epoch = 0
        self.active: Owned = {}
        self.standby: Owned = {}

    def step(self) -> None:
        fields: dict[str, Any] = {
            "active_tasks": listed(self.active),
            "standby_tasks": listed(self.standby),
            "warmup_tasks": [],
        }
        if self.epoch == 0:
            fields |= {"rebalance_timeout_ms": 5_000, "topology": self._topology, "process_id": self.process}
        promise = beat(self._stage, self.id, self.epoch, **fields)
        if not promise.is_done:
            return  # the answer does not come, since the log does not commit
        if promise.error is not None:
            known = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            assert promise.error.code in (*known, ErrorCode.NOT_COORDINATOR), promise.error
            if promise.error.code in known:
                self.forget()
            return
        response = promise.result().response
        self.epoch = response.member_epoch
        self.active = self.active if response.active_tasks is None else shown(response.active_tasks) or {}
        self.standby = self.standby if response.standby_tasks is None else shown(response.standby_tasks) or {}

    def leave(self) -> None:
        beat(self._stage, self.id, -1)
        self.forget()
