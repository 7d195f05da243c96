"""Members of a group that speak the protocol themselves, so that no client library's pace is measured.

All live on one event loop, each with a connection of its own: join, sync, and a heartbeat that is answered with a
rebalance sends it back to join. The leader deals the partitions out in turns.
"""

import asyncio
import struct
import time
from typing import Any

from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from benchmarks.link import Link

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION = 9, 5, 4
SETTLED_LIMIT_S = 60.0
_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class Member(Link):
    def __init__(self, crew: "Crew") -> None:
        super().__init__()
        self._crew = crew
        self._id = ""
        self.generation = -1
        self.rejoin = False

    async def live(self) -> None:
        while True:
            joined = await self._join()
            if await self._sync(joined):
                self.generation = joined.generation_id
                self._crew.look(joined.generation_id)
                await self._stay(joined.generation_id)

    async def _join(self) -> Any:
        while True:
            request = JoinGroupRequest(
                group_id=self._crew.group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=30_000,
                member_id=self._id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=self._crew.subscription)],
            )
            answer = await self.ask(request, JOIN_VERSION)
            if answer.error_code == ErrorCode.NONE:
                return answer
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise RuntimeError(f"JoinGroup was answered with {ErrorCode(answer.error_code).name}")
            self._id = answer.member_id

    async def _sync(self, joined: Any) -> bool:
        assignments = []
        if joined.leader == self._id:
            self._crew.leader = self
            self._crew.sizes[joined.generation_id] = len(joined.members)
            assignments = self._crew.deal([each.member_id for each in joined.members])
        request = SyncGroupRequest(
            group_id=self._crew.group,
            generation_id=joined.generation_id,
            member_id=self._id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        answer = await self.ask(request, SYNC_VERSION)
        if answer.error_code not in (ErrorCode.NONE, *_AGAIN):
            raise RuntimeError(f"SyncGroup was answered with {ErrorCode(answer.error_code).name}")
        return bool(answer.error_code == ErrorCode.NONE)

    async def _stay(self, generation_id: int) -> None:
        request = HeartbeatRequest(group_id=self._crew.group, generation_id=generation_id, member_id=self._id)
        while not self.rejoin:
            await asyncio.sleep(self._crew.heartbeat_s)
            answer = await self.ask(request, HEARTBEAT_VERSION)
            if answer.error_code in _AGAIN:
                return
            if answer.error_code != ErrorCode.NONE:
                raise RuntimeError(f"Heartbeat was answered with {ErrorCode(answer.error_code).name}")
        self.rejoin = False


class Crew:
    """Settled: all members are in one generation that has all of them."""

    def __init__(self, group: str, topic: str, partitions: int, members: int, heartbeat_s: float) -> None:
        name = topic.encode()
        self.group = group
        self.subscription = struct.pack(f">hih{len(name)}si", 1, 1, len(name), name, -1) + struct.pack(">i", 0)
        self.heartbeat_s = heartbeat_s
        self.members = [Member(self) for _ in range(members)]
        self.leader = self.members[0]
        self.sizes: dict[int, int] = {}
        self._topic = name
        self._partitions = partitions
        self._settled = asyncio.Event()
        self._lives: list[asyncio.Task[None]] = []

    def deal(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        dealt = []
        for number, member_id in enumerate(member_ids):
            mine = range(number, self._partitions, len(member_ids))
            assignment = struct.pack(f">hih{len(self._topic)}si", 1, 1, len(self._topic), self._topic, len(mine))
            assignment += struct.pack(f">{len(mine)}i", *mine) + struct.pack(">i", -1)
            dealt.append(SyncGroupRequestAssignment(member_id=member_id, assignment=assignment))
        return dealt

    def look(self, generation_id: int) -> None:
        is_whole = self.sizes.get(generation_id) == len(self.members)
        if is_whole and all(each.generation == generation_id for each in self.members):
            self._settled.set()

    async def connect(self, servers: str) -> None:
        for member in self.members:
            await member.connect(servers)

    async def settle(self) -> float:
        """Everybody joins at once; the seconds until the group has settled."""
        began = time.perf_counter()
        self._lives = [asyncio.ensure_future(member.live()) for member in self.members]
        await self._wait()
        return time.perf_counter() - began

    async def rebalance(self) -> float:
        """The leader joins again, as if its subscription had changed; the seconds until all have settled anew."""
        self._settled.clear()
        for member in self.members:
            member.generation = -1
        began = time.perf_counter()
        self.leader.rejoin = True
        await self._wait()
        return time.perf_counter() - began

    async def _wait(self) -> None:
        settled = asyncio.ensure_future(self._settled.wait())
        done, _ = await asyncio.wait(
            [settled, *self._lives], timeout=SETTLED_LIMIT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if settled not in done:
            settled.cancel()
            for failed in done:
                failed.result()
            raise TimeoutError(f"the group has not settled in {SETTLED_LIMIT_S:.0f} s")

    def close(self) -> None:
        for life in self._lives:
            life.cancel()
        for member in self.members:
            member.close()


async def joining(servers: str, group: str, topic: str, members: int) -> float:
    crew = Crew(group, topic, members, members, heartbeat_s=0.1)
    try:
        await crew.connect(servers)
        return await crew.settle()
    finally:
        crew.close()


async def rebalances(servers: str, group: str, topic: str, partitions: int, members: int, times: int) -> list[float]:
    crew = Crew(group, topic, partitions, members, heartbeat_s=0.02)
    try:
        await crew.connect(servers)
        await crew.settle()
        return [await crew.rebalance() for _ in range(times)]
    finally:
        crew.close()
