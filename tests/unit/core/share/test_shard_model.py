"""Share states, time, failing appends, pruning and restarts at random: what was written is there, offset by offset."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from barnabas.core.coordinator.loading import Loader
from barnabas.core.coordinator.runtime import Append, ShardRuntime
from barnabas.core.coordinator.timers import Timers
from barnabas.core.share.batches import StateBatch
from barnabas.core.share.records import ShareKey
from barnabas.core.share.shard import ShareStateShard
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.uuids import Uuid

KEYS = [ShareKey("g", Uuid(b"t" * 16), partition) for partition in range(3)]
WIDTH = 40


@dataclass
class Expected:
    """One share partition, as everybody has been told."""

    state_epoch: int
    leader_epoch: int = 0
    start: int = 0
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)


class Play:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: list[tuple[int, Append]] = []
        self.end_offset = 0
        self.failing = False
        self.expected: dict[ShareKey, Expected] = {}
        self.start()

    def start(self) -> None:
        """Also a restart: whatever the log holds is loaded."""
        shard = ShareStateShard(Timers(lambda: 0), lambda: 7, lambda key: True, lambda: 5)
        self.runtime: ShardRuntime[ShareStateShard] = ShardRuntime(shard)
        loader = Loader(self.runtime, self.log[0][0] if self.log else self.end_offset)
        for offset, batch in self.log:
            records = [Record(offset + index, 0, key, value) for index, (key, value) in enumerate(batch.records)]
            for _ in loader.feed(bytes(build_batch(records)), high_watermark=self.end_offset):
                pass
        for _ in loader.finish():
            pass

    def ask(self, operation: object) -> ErrorCode | None:
        """None if it was not written."""
        promise = self.runtime.decide(operation)  # type: ignore[arg-type,var-annotated]
        if self.failing:
            if self.runtime.unwritten():
                self.runtime.append_failed(KafkaError(ErrorCode.NOT_COORDINATOR))
        else:
            for batch in self.runtime.unwritten():
                self.log.append((self.end_offset, batch))
                self.end_offset += len(batch.records)
                self.runtime.appended(batch, self.end_offset)
            self.runtime.committed(self.end_offset)
        if promise.error is not None:
            return None if promise.error.code is ErrorCode.NOT_COORDINATOR else promise.error.code
        return ErrorCode.NONE

    def step(self) -> None:
        key = self.random.choice(KEYS)
        actions = ["write", "read", "initialize", "delete", "prune", "fail", "restart"]
        getattr(self, self.random.choices(actions, [70, 10, 5, 2, 3, 5, 3])[0])(key)
        self.check()

    def write(self, key: ShareKey) -> None:
        random, known = self.random, self.expected.get(key)
        first = random.randrange(WIDTH)
        batches = [StateBatch(first, random.randrange(first, WIDTH), random.choice([0, 2, 4]), random.randint(1, 4))]
        start = random.choice([-1, random.randint(0, 3) + (known.start if known is not None else 0)])
        epochs = (known.state_epoch, known.leader_epoch) if known is not None else (0, 0)
        stale = random.random() < 0.1
        leader_epoch = epochs[1] - stale
        code = self.ask(lambda shard: shard.write(key, epochs[0], leader_epoch, start, 0, batches))
        if known is None:
            assert code is ErrorCode.INVALID_REQUEST
        elif stale and leader_epoch >= 0:
            assert code is ErrorCode.FENCED_LEADER_EPOCH
        elif code is ErrorCode.NONE:
            known.start = max(known.start, start)
            for first, last, state, count in batches:
                known.offsets |= dict.fromkeys(range(first, last + 1), (state, count))

    def read(self, key: ShareKey) -> None:
        known = self.expected.get(key)
        epoch = (known.leader_epoch if known is not None else 0) + self.random.randint(0, 2)
        code = self.ask(lambda shard: shard.read(key, epoch))
        if known is not None and code is ErrorCode.NONE:
            known.leader_epoch = max(known.leader_epoch, epoch)

    def initialize(self, key: ShareKey) -> None:
        known = self.expected.get(key)
        epoch = (known.state_epoch if known is not None else 0) + self.random.randint(-1, 2)
        start = self.random.randrange(10)
        code = self.ask(lambda shard: shard.initialize(key, epoch, start))
        if known is not None and 0 <= epoch < known.state_epoch:
            assert code is ErrorCode.FENCED_STATE_EPOCH
        elif code is ErrorCode.NONE:
            self.expected[key] = Expected(epoch, start=start)

    def delete(self, key: ShareKey) -> None:
        if self.ask(lambda shard: shard.delete(key)) is ErrorCode.NONE:
            self.expected.pop(key, None)

    def prune(self, key: ShareKey) -> None:
        needed_from = self.end_offset
        written = [self.ask(lambda shard, each=each: shard.write_snapshot(each)) for each in KEYS]  # type: ignore[misc]
        if all(code is ErrorCode.NONE for code in written):
            self.log = [each for each in self.log if each[0] >= needed_from]

    def fail(self, key: ShareKey) -> None:
        self.failing = not self.failing

    def restart(self, key: ShareKey) -> None:
        before = dict(self.runtime.shard.states.items())
        self.start()
        assert dict(self.runtime.shard.states.items()) == before

    def check(self) -> None:
        states = dict(self.runtime.shard.states.items())
        assert set(states) == set(self.expected)
        for key, known in self.expected.items():
            state = states[key]
            assert (state.state_epoch, state.leader_epoch, state.start_offset) == (
                known.state_epoch,
                known.leader_epoch,
                known.start,
            )
            told = {
                offset: (each.delivery_state, each.delivery_count)
                for each in state.batches
                for offset in range(each.first_offset, each.last_offset + 1)
            }
            assert told == {offset: what for offset, what in known.offsets.items() if offset >= known.start}


@pytest.mark.parametrize("seed", range(30))
def test_what_was_written_is_there_whatever_happens(seed: int) -> None:
    play = Play(seed)
    for _ in range(200):
        play.step()
    play.failing = False
    play.restart(KEYS[0])
