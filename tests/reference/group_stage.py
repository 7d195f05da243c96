"""Several members on two stages: the same requests to Apache Kafka and to us, with the ids that each has given out."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Any

from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.wire.schema import Request, Struct
from tests.support.reference_exchange import Connection, Side, differences

Ids = dict[str, str]
Build = Callable[[Ids], Request]
UNIQUE = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Stage:
    """`cast` names the ids: "anna" is one member on both sides, under different ids."""

    def __init__(self, both: Any, group: str = "") -> None:
        self.both = both
        self.group = group or both.new_name("group")
        self.ids: dict[str, Ids] = {side.name: {"": ""} for side in both.sides}
        self._connections: dict[tuple[str, str], Connection] = {}
        self.answers: list[Any] = []
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group])
        for side in both.sides:
            side.wait_until(find, 4, lambda answer: answer.coordinators[0].error_code == 0)
            self._wait_for_group(side)

    def _wait_for_group(self, side: Side) -> None:
        request = HeartbeatRequest(group_id=self.group, generation_id=0, member_id="nobody")
        side.wait_until(request, 4, lambda answer: answer.error_code == 25)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def connection(self, side: Side, name: str) -> Connection:
        found = self._connections.get((side.name, name))
        if found is None:
            found = self._connections[side.name, name] = Connection(side.host, side.port, client_id="exchange")
        return found

    def send(self, name: str, build: Build, version: int) -> None:
        for side in self.both.sides:
            self.connection(side, name).send(build(self.ids[side.name]), version)

    def receive(self, name: str, request: type[Request], version: int, **comparison: Any) -> Any:
        self.answers = []
        for side in self.both.sides:
            answer: Any = self.connection(side, name).receive(request, version)
            member_id = getattr(answer, "member_id", "")
            if member_id and member_id not in self.ids[side.name].values():
                self.ids[side.name][name] = member_id
            self._rename(answer, {value: key for key, value in self.ids[side.name].items() if value})
            self.answers.append(answer)
        self.both.note(f"v{version} {name} -> {self.answers[0]!r}")
        if len(self.answers) == 2:
            found = differences(*self.answers, **comparison)
            assert not found, "\n".join([f"{request.__name__} version {version} of {name}: answers differ", *found])
        return self.answers[0]

    def same(self, name: str, build: Build, version: int, **comparison: Any) -> Any:
        self.send(name, build, version)
        return self.receive(name, type(build(self.ids[self.both.kafka.name])), version, **comparison)

    def _rename(self, value: Any, names: dict[str, str]) -> None:
        if isinstance(value, list):
            for item in value:
                self._rename(item, names)
            value.sort(key=lambda item: (getattr(item, "group_id", ""), getattr(item, "member_id", "")))
        elif isinstance(value, Struct):
            for field, held in vars(value).items():
                if isinstance(held, str):
                    setattr(value, field, names.get(held, UNIQUE.sub("-...", held)))
                else:
                    self._rename(held, names)

    # The requests of members

    def join(
        self,
        name: str = "",
        *,
        topics: tuple[str, ...] = ("t",),
        protocols: tuple[str, ...] = ("range",),
        protocol_type: str = "consumer",
        instance: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 10_000,
        group: str | None = None,
    ) -> Build:
        return lambda ids: JoinGroupRequest(
            group_id=self.group if group is None else group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=ids.get(name, name),
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=each, metadata=subscription(*topics)) for each in protocols],
        )

    def sync(
        self,
        name: str,
        generation: int,
        assignment: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Build:
        return lambda ids: SyncGroupRequest(
            group_id=self.group,
            generation_id=generation,
            member_id=ids.get(name, name),
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=ids.get(each, each), assignment=data)
                for each, data in (assignment or {}).items()
            ],
        )

    def heartbeat(self, name: str, generation: int, *, instance: str | None = None, group: str | None = None) -> Build:
        return lambda ids: HeartbeatRequest(
            group_id=self.group if group is None else group,
            generation_id=generation,
            member_id=ids.get(name, name),
            group_instance_id=instance,
        )

    def leave(self, *names: str, instance: str | None = None) -> Build:
        return lambda ids: LeaveGroupRequest(
            group_id=self.group,
            members=[MemberIdentity(member_id=ids.get(name, name), group_instance_id=instance) for name in names],
        )

    def commit(
        self,
        topic: str,
        offset: int,
        name: str = "",
        generation: int = -1,
        *,
        partition: int = 0,
        metadata: str | None = "",
        instance: str | None = None,
        group: str | None = None,
    ) -> Build:
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        return lambda ids: OffsetCommitRequest(
            group_id=self.group if group is None else group,
            generation_id_or_member_epoch=generation,
            member_id=ids.get(name, name),
            group_instance_id=instance,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
        )

    # Whole scenes

    def settle(self, name: str = "anna", **joining: Any) -> None:
        """One member is generation 1 by itself."""
        self.same(name, self.join(**joining), 9)
        if "instance" not in joining:
            self.same(name, self.join(name, **joining), 9)
        self.same(name, self.sync(name, 1, {name: b"all"}, instance=joining.get("instance")), 5)

    def settle_two(self, first: str = "anna", second: str = "bert") -> None:
        """Both are generation 2, led by the first."""
        self.settle(first)
        self.same(second, self.join(), 9)
        self.send(second, self.join(second), 9)
        self.until_rebalancing(first, 1)
        self.same(first, self.join(first), 9)
        self.receive(second, JoinGroupRequest, 9)
        self.send(second, self.sync(second, 2), 5)
        self.same(first, self.sync(first, 2, {first: b"half", second: b"rest"}), 5)
        self.receive(second, SyncGroupRequest, 5)

    def until_rebalancing(self, name: str, generation: int) -> None:
        for side in self.both.sides:
            request = self.heartbeat(name, generation)(self.ids[side.name])
            side.wait_until(request, 4, lambda answer: answer.error_code == 27)
