"""Members of both protocols in a group that migrates to and fro: no partition has two owners, a replay gives the same.

What a member believes it owns must be known to the group for as long as the member is known.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from barnabas.core.coordinator.promise import Promise
from barnabas.core.groups.consumer.embedded import read_assignment, write_assignment
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.state import ClassicGroup, Phase
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.join_group import JoinGroupResponse
from barnabas.wire.messages.sync_group import SyncGroupResponse
from barnabas.wire.records.consumer_protocol import ConsumerProtocolSubscription
from tests.unit.core.groups.stage import NEW, Stage

from .consumers import Consumer, picture, topic_id
from .test_model import Play

VERSION = 1
TOPICS = ["a", "b"]
Owned = set[tuple[str, int]]


def subscription() -> bytes:
    out = bytearray(struct.pack(">h", VERSION))
    ConsumerProtocolSubscription(topics=TOPICS).encode_into(out, VERSION)
    return bytes(out)


class ClassicConsumer:
    """Eager: before it joins again it gives everything back."""

    def __init__(self, stage: Stage, image: MetadataImage, instance: str | None) -> None:
        self.stage = stage
        self.image = image
        self.instance = instance
        self.id, self.generation = "", -1
        self.held: Owned = set()
        self.joining: Promise[JoinGroupResponse] | None = None
        self.syncing: Promise[SyncGroupResponse] | None = None

    def believed(self) -> Owned:
        return self.held

    def forget(self) -> None:
        self.id = ""
        self.rejoin()

    def rejoin(self) -> None:
        self.generation, self.held, self.joining, self.syncing = -1, set(), None, None

    def leave(self) -> None:
        if self.id:
            self.stage.leave(self.id)
        self.forget()

    def restarted(self) -> None:
        if self.joining is not None or self.syncing is not None:
            self.rejoin()

    def step(self) -> None:
        if self.joining is not None:
            if self.joining.is_done:
                self._joined()
        elif self.syncing is not None:
            if self.syncing.is_done:
                self._synced()
        elif self.generation < 0:
            self.joining = self.stage.join(
                self.id,
                caller=NEW,
                instance=self.instance,
                protocols={"range": subscription()},
                session_timeout_ms=10_000,
                rebalance_timeout_ms=20_000,
            )
        else:
            self._react(self.stage.heartbeat(self.id, self.generation, self.instance))

    def _joined(self) -> None:
        assert self.joining is not None
        promise, self.joining = self.joining, None
        if promise.error is not None:
            self._react(promise.error.code)
            return
        response = promise.result()
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.id = response.member_id
        elif response.error_code:
            self._react(ErrorCode(response.error_code))
        else:
            self.id, self.generation = response.member_id, response.generation_id
            dealt = {}
            if response.leader == self.id and not response.skip_assignment:
                dealt = self._deal([each.member_id for each in response.members])
            self.syncing = self.stage.sync(self.id, self.generation, dealt, self.instance)

    def _deal(self, ids: list[str]) -> dict[str, bytes]:
        targets: dict[str, dict[object, list[int]]] = {each: {} for each in ids}
        places = [(name, index) for name in TOPICS for index in self.image.topics[name].partitions]
        for number, (name, index) in enumerate(places):
            targets[ids[number % len(ids)]].setdefault(topic_id(name), []).append(index)
        return {each: write_assignment(target, VERSION, self.image) for each, target in targets.items()}  # type: ignore[arg-type]

    def _synced(self) -> None:
        assert self.syncing is not None
        promise, self.syncing = self.syncing, None
        if promise.error is not None:
            self._react(promise.error.code)
        elif promise.result().error_code:
            self._react(ErrorCode(promise.result().error_code))
        else:
            found = bytes(promise.result().assignment)
            listed = read_assignment(found).assigned_partitions if found else []
            self.held = {(each.topic, index) for each in listed for index in each.partitions}

    def _react(self, error: ErrorCode) -> None:
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            self.rejoin()
        elif error is not ErrorCode.NONE:
            self.forget()


class ModernConsumer(Consumer):
    def believed(self) -> Owned:
        return {(each.topic_id.lstrip(b"_").decode(), index) for each in self.owned for index in each.partitions}

    def restarted(self) -> None:
        pass


class MixedPlay(Play):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        random = self.random = Random(seed)
        self.classics = [
            ClassicConsumer(self.stage, self.image, f"classic-{number}" if number % 3 == 2 else None)
            for number in range(random.randint(1, 3))
        ]
        self.moderns = [
            ModernConsumer(self.stage, f"c{number}", TOPICS, f"static-{number}" if number % 3 == 2 else None)
            for number in range(random.randint(1, 3))
        ]
        self.everybody: list[ClassicConsumer | ModernConsumer] = [*self.classics, *self.moderns]
        self.consumers = list(self.everybody)  # type: ignore[arg-type]
        self.kinds: set[str] = set()

    def restart(self) -> None:
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.flush()
        before = picture(self.stage)
        self.stage.start()
        if before.get("g") != "classic":
            assert picture(self.stage) == before
        for each in self.everybody:
            each.restarted()

    def check(self) -> None:
        super().check()
        group = self.stage.shard.groups.get("g")
        self.kinds.add(type(group).__name__)
        if isinstance(group, ConsumerGroup):
            for each in self.everybody:
                member = group.members.get(each.id)
                if member is None or (isinstance(each, ModernConsumer) and each.epoch == 0):
                    continue
                held = (member.assigned, member.revoking)
                known = {(topic, index) for part in held for topic in part for index in part[topic]}
                believed = {(topic_id(name), index) for name, index in each.believed()}
                assert believed <= known, f"{each.id} has what nobody knows of: {believed - known}"

    def calm(self) -> None:
        self.stage.failing, self.stage.auto_commit = False, True
        self.stage.flush()
        for _ in range(80):
            for each in self.everybody:
                each.step()
            self.stage.pass_ms(500)
            self.check()
        owned = [each for one in self.everybody for each in one.believed()]
        expected = {(name, index) for name in TOPICS for index in self.image.topics[name].partitions}
        assert sorted(owned) == sorted(expected), f"in the end {sorted(owned)}"
        group = self.stage.shard.groups.get("g")
        if isinstance(group, ClassicGroup):
            assert group.phase is Phase.STABLE


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_members_of_both_protocols_do_not_share_a_partition(seed: int) -> None:
    play = MixedPlay(seed)
    for _ in range(200):
        play.step()
    play.calm()
    play.restart()
