"""Records that were delivered often come in ever smaller parts, so that one that nobody survives takes no others with
it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from barnabas.core.share.batches import combine
from barnabas.core.share.partition import Acknowledgement, Acquired, SharePartition, Taking

ACCEPT, RELEASE = 1, 2


class Group:
    """One that reads batches of the log, and gives everything back."""

    def __init__(self, batches: list[tuple[int, int]], most_deliveries: int) -> None:
        self.state = SharePartition(0)
        self.batches = batches
        self.most_deliveries = most_deliveries

    def take(self) -> list[Acquired]:
        offset, new_from = self.state.next_fetch_offset(), self.state.end_offset
        taking = Taking(2_000, self.most_deliveries)
        taken: list[Acquired] = []
        for first, last in self.batches:
            if last >= offset and not taking.is_over:
                taken += self.state.acquire(
                    "anna", first, last, read_from=first, taking=taking, most_in_flight=2_000, locked_until_ms=1
                )
        if taken:
            self.state.taken_together(new_from)
        return taken

    def say(self, kind: int, first: int, last: int) -> None:
        given = [Acknowledgement(first, last, [kind])]
        self.state.acknowledge("anna", given, most_deliveries=self.most_deliveries, locked_until_ms=1)

    def deliver(self) -> tuple[int, int, int]:
        """From where, how many, and how often they were delivered; they are given back."""
        taken = self.take()
        assert taken
        assert all(one.last + 1 == other.first for one, other in pairwise(taken))
        for each in taken:
            self.say(RELEASE, each.first, each.last)
        first, last = taken[0].first, taken[-1].last
        return first, last - first + 1, taken[0].deliveries


def split(count: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, count) - 1) for first in range(0, count, size)]


@pytest.mark.parametrize("size", [100, 30, 1])
def test_from_half_of_the_deliveries_on_parts_are_halved_and_the_last_time_is_alone(size: int) -> None:
    group = Group(split(100, size), most_deliveries=5)
    assert [group.deliver() for _ in range(5)] == [(0, 100, 1), (0, 100, 2), (0, 100, 3), (0, 50, 4), (0, 1, 5)]
    assert [group.deliver() for _ in range(1, 50)] == [(offset, 1, 5) for offset in range(1, 50)]
    assert group.deliver() == (50, 50, 4)
    assert [group.deliver() for _ in range(50, 100)] == [(offset, 1, 5) for offset in range(50, 100)]
    assert (group.take(), group.state.start_offset) == ([], 100)


def test_for_a_new_leader_what_was_persisted_together_was_taken_together() -> None:
    group = Group(split(100, 1), most_deliveries=5)
    for _ in range(3):
        group.deliver()
    persisted = combine((), group.state.to_persist(), 0)
    group.state = SharePartition(0, persisted)
    assert [group.deliver() for _ in range(2)] == [(0, 50, 4), (0, 1, 5)]


def test_what_is_suspect_comes_without_others() -> None:
    group = Group([(0, 9)], most_deliveries=5)
    for _ in range(3):
        group.deliver()
    group.batches.append((10, 19))
    assert group.take() == [Acquired(0, 4, 4)]
    assert group.take() == [Acquired(5, 9, 4)]
    assert group.take() == [Acquired(10, 19, 1)]


@pytest.mark.parametrize("seed", range(40))
def test_the_one_record_that_ends_its_member_is_the_only_one_that_is_given_up(seed: int) -> None:
    random = Random(seed)
    count = random.randint(2, 200)
    poison = random.randrange(count)
    group = Group(split(count, random.randint(1, 60)), most_deliveries=random.randint(3, 10))
    accepted: set[int] = set()
    while taken := group.take():
        offsets = [offset for each in taken for offset in range(each.first, each.last + 1)]
        if poison in offsets:  # whoever has it dies, and all its records are free again
            group.state.release("anna", most_deliveries=group.most_deliveries)
        else:
            for offset in offsets:
                group.say(ACCEPT, offset, offset)
                accepted.add(offset)
    assert accepted == set(range(count)) - {poison}
