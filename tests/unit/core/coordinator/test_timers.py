from __future__ import annotations

import pytest

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.partitioning import java_hash, partition_for
from barnabas.core.coordinator.timers import Timers


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fired() -> list[str]:
    return []


def run(timers: Timers) -> None:
    while (due := timers.take_due()) is not None:
        due()


def note(fired: list[str], name: str) -> object:
    def due() -> Decision[None] | None:
        fired.append(name)
        return None

    return due


def test_timers_fire_in_order_and_once(clock: Clock, fired: list[str]) -> None:
    timers = Timers(clock)
    timers.schedule("b", 20, note(fired, "b"))  # type: ignore[arg-type]
    timers.schedule("a", 10, note(fired, "a"))  # type: ignore[arg-type]
    assert timers.next_delay_ms == 10
    clock.now_ms = 20
    run(timers)
    run(timers)
    assert fired == ["a", "b"]
    assert timers.next_delay_ms is None


def test_a_timer_put_off_does_not_fire_at_its_old_time(clock: Clock, fired: list[str]) -> None:
    timers = Timers(clock)
    timers.schedule("a", 10, note(fired, "old"))  # type: ignore[arg-type]
    clock.now_ms = 5
    timers.schedule("a", 10, note(fired, "new"))  # type: ignore[arg-type]
    clock.now_ms = 12
    run(timers)
    assert fired == []
    assert timers.next_delay_ms == 3
    clock.now_ms = 15
    run(timers)
    assert fired == ["new"]


def test_a_timer_may_come_nearer_or_be_cancelled(clock: Clock, fired: list[str]) -> None:
    timers = Timers(clock)
    nearer: list[int | None] = []
    timers.on_earlier = lambda: nearer.append(timers.next_delay_ms)
    timers.schedule("a", 50, note(fired, "a"))  # type: ignore[arg-type]
    timers.schedule("a", 10, note(fired, "sooner"))  # type: ignore[arg-type]
    timers.schedule("b", 10, note(fired, "b"))  # type: ignore[arg-type]
    timers.cancel("b")
    assert nearer == [50, 10]
    clock.now_ms = 60
    run(timers)
    assert fired == ["sooner"]
    assert not timers.is_scheduled("a")


@pytest.mark.parametrize(
    ("key", "code"), [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(1 << 31)), ("😀", 1772899)]
)
def test_keys_are_hashed_as_java_does(key: str, code: int) -> None:
    assert java_hash(key) == code
    assert 0 <= partition_for(key, 50) < 50


def test_the_hash_without_an_absolute_value_is_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0
