"""Which partitions each member of a share group gets."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from barnabas.core.groups.share.spread import spread
from barnabas.wire.uuids import Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def test_a_partition_that_is_new_is_given_to_somebody_though_all_have_enough() -> None:
    members = ["m0", "m1", "m2", "m3"]
    before = {
        "m0": {A: frozenset({0})},
        "m1": {A: frozenset({1})},
        "m2": {A: frozenset({1})},
        "m3": {A: frozenset({0})},
    }
    targets = spread({each: {A} for each in members}, {A: [0, 1, 2]}, before)
    assert Counter(index for target in targets.values() for index in target[A]) == {0: 2, 1: 2, 2: 2}
    assert all(before[each][A] <= targets[each][A] for each in members)


def test_partitions_of_topics_that_all_subscribe_to_are_dealt_out_together() -> None:
    targets = spread({"m0": {A, B}, "m1": {A, B}}, {A: [0], B: [0]}, {})
    assert sorted(sum(map(len, target.values())) for target in targets.values()) == [1, 1]


@pytest.mark.parametrize("seed", range(200))
def test_each_partition_is_with_as_many_as_it_takes_and_no_member_has_two_more_than_another(seed: int) -> None:
    random = Random(seed)
    members = [f"m{number}" for number in range(random.randint(1, 9))]
    subscribed = {each: random.choice([{A}, {B}, {A, B}]) for each in members}
    if random.random() < 0.5:
        subscribed = {each: {A, B} for each in members}
    targets: dict[str, dict[Uuid, frozenset[int]]] = {}
    for _ in range(3):  # members come and go, partitions are added
        ready = {A: range(random.randint(1, 6)), B: range(random.randint(1, 6))}
        present = random.sample(members, random.randint(1, len(members)))
        targets = spread({each: subscribed[each] for each in present}, ready, targets)
        assert set(targets) == set(present)
        for topic in (A, B):
            interested = [each for each in present if topic in subscribed[each]]
            if not interested:
                continue
            counts = Counter(dict.fromkeys(ready[topic], 0))
            counts.update(index for each in present for index in targets[each].get(topic, ()))
            assert set(counts) == set(ready[topic])
            assert min(counts.values()) > 0, "a partition that nobody has"
        if len({frozenset(subscribed[each]) for each in present}) == 1:
            sizes = [sum(len(each) for each in targets[member].values()) for member in present]
            assert max(sizes) - min(sizes) <= 1
