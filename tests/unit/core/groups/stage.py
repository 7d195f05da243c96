"""A shard of groups with a log that commits when told, clocks that move when told, and members with short names."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.loading import Loader
from barnabas.core.coordinator.promise import Promise
from barnabas.core.coordinator.records import CoordinatorRecord, decode
from barnabas.core.coordinator.runtime import Append, ShardRuntime
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import NO_TOPICS, Cluster
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.consumer.settings import ConsumerSettings
from barnabas.core.groups.membership import Caller
from barnabas.core.groups.settings import GroupSettings
from barnabas.core.groups.shard import GroupShard
from barnabas.core.groups.state import ClassicGroup
from barnabas.core.groups.streams.settings import StreamsSettings
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

NOT_COORDINATOR = KafkaError(ErrorCode.NOT_COORDINATOR)
NO_DELAY = GroupSettings(initial_rebalance_delay_ms=0)
OLD, NEW = Caller("client", "/host", must_know_its_id=False, can_skip_assignment=False), Caller("client", "/host")


class Stage:
    def __init__(self, settings: GroupSettings = NO_DELAY, cluster: Cluster = NO_TOPICS) -> None:
        self.settings = settings
        self.cluster = cluster
        self.consumer_settings = ConsumerSettings(assignment_interval_ms=0)
        self.streams_settings = StreamsSettings(assignment_interval_ms=0, initial_rebalance_delay_ms=0)
        self.now_ms = 1_000
        self.log: list[Append] = []
        self.end_offset = 0
        self.auto_commit = True
        self.failing = False
        self._numbers = count(1)
        self.start()

    def start(self) -> None:
        """Also a restart: whatever the log holds is loaded."""
        timers = Timers(lambda: self.now_ms)
        shard = GroupShard(
            timers,
            lambda: self.settings,
            lambda: self.now_ms,
            lambda: f"{next(self._numbers)}",
            image=lambda: self.cluster,
            consumer_settings=lambda group_id: self.consumer_settings,
            streams_settings=lambda group_id: self.streams_settings,
        )
        self.runtime: ShardRuntime[GroupShard] = ShardRuntime(shard)
        loader = Loader(self.runtime, 0)
        offset = 0
        for batch in self.log:
            records = [Record(offset + index, 0, key, value) for index, (key, value) in enumerate(batch.records)]
            offset += len(records)
            for _ in loader.feed(bytes(build_batch(records)), high_watermark=self.end_offset):
                pass
        for _ in loader.finish():
            pass
        decision = shard.loaded()
        if decision is not None:
            self.runtime.accept(decision)
        self.flush()

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard

    def group(self, group_id: str = "g") -> ClassicGroup:
        found = self.shard.groups.get(group_id)
        assert isinstance(found, ClassicGroup)
        return found

    def flush(self) -> None:
        if self.failing:
            if self.runtime.unwritten():
                self.runtime.append_failed(NOT_COORDINATOR)
            return
        for batch in self.runtime.unwritten():
            self.log.append(batch)
            self.end_offset += len(batch.records) or 1
            self.runtime.appended(batch, self.end_offset)
        if self.auto_commit:
            self.commit_log()

    def commit_log(self) -> None:
        self.runtime.committed(self.end_offset)

    def records(self) -> list[CoordinatorRecord]:
        """What is in the log, decoded."""
        decoded = [decode(self.shard.kinds, key, value) for batch in self.log for key, value in batch.records]
        return [each for each in decoded if each is not None]

    def run(self, operation: Callable[[GroupShard], Decision[Any]]) -> Promise[Any]:
        promise = self.runtime.decide(operation)
        self.flush()
        self.pass_ms(0)
        return promise

    def pass_ms(self, delay_ms: int) -> None:
        until_ms = self.now_ms + delay_ms
        while True:
            next_ms = self.shard.timers.next_delay_ms
            if next_ms is None or self.now_ms + next_ms > until_ms:
                break
            self.now_ms += next_ms
            while (due := self.shard.timers.take_due()) is not None:
                decision = due()
                if decision is not None:
                    self.runtime.accept(decision)
                self.flush()
        self.now_ms = until_ms

    # What members ask for

    def join(
        self,
        member_id: str = "",
        *,
        caller: Caller = OLD,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
    ) -> Promise[JoinGroupResponse]:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (protocols if protocols is not None else {"range": b"all"}).items()
            ],
        )
        return self.run(lambda shard: shard.members.join(request, caller))

    def sync(
        self, member_id: str, generation: int, assignment: dict[str, bytes] | None = None, instance: str | None = None
    ) -> Promise[SyncGroupResponse]:
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data) for name, data in (assignment or {}).items()
            ],
        )
        return self.run(lambda shard: shard.members.sync(request))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        promise = self.run(lambda shard: shard.members.heartbeat(request))
        if promise.error is not None:
            return promise.error.code
        return ErrorCode(promise.result().error_code) if promise.is_done else ErrorCode.NONE

    def leave(self, *member_ids: str) -> Promise[LeaveGroupResponse]:
        members = [MemberIdentity(member_id=each) for each in member_ids]
        request = LeaveGroupRequest(group_id="g", members=members)
        return self.run(lambda shard: shard.members.leave(request))

    def commit(self, offset: int, member_id: str = "", generation: int = -1, **more: Any) -> Promise[list[ErrorCode]]:
        committer = Committer("g", member_id, None, generation)
        return self.run(lambda shard: shard.commits.commit(committer, [Commit("t", 0, offset)], **more))

    def committed(self, partition: int = 0) -> int | None:
        found = self.shard.offsets.committed("g", "t", partition)
        return None if found is None else found.offset

    # Scenes

    def settle(self, *, protocols: dict[str, bytes] | None = None) -> str:
        """One member is generation 1 by itself."""
        member_id = self.join(protocols=protocols).result().member_id
        assert self.sync(member_id, 1, {member_id: b"everything"}).result().error_code == 0
        return member_id

    def settle_two(self) -> tuple[str, str]:
        anna = self.settle()
        waiting = self.join()
        self.join(anna)
        bert = waiting.result().member_id
        fetching = self.sync(bert, 2)
        self.sync(anna, 2, {anna: b"half", bert: b"rest"})
        assert fetching.result().assignment == b"rest"
        return anna, bert
