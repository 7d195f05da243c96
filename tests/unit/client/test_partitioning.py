"""Partitions are chosen as the Java client chooses them."""

from __future__ import annotations

import pytest

from barnabas.client.partitioning import RoundRobinPartitions, StickyPartitions, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_keys_have_the_hash_that_java_gives_them(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF
    assert partition_for_key(key, 7) == (signed & 0x7FFFFFFF) % 7


def test_records_without_a_key_stay_until_a_batch_is_full_and_then_move() -> None:
    filled = {0: 0, 1: 0, 2: 500}
    sticky = StickyPartitions(100, choose=lambda count: count - 1)
    assert sticky.partition([0, 1, 2], filled.__getitem__) == 2
    filled[2] += 60
    assert sticky.partition([0, 1, 2], filled.__getitem__) == 2
    filled[2] += 60
    assert sticky.partition([0, 1, 2], filled.__getitem__) == 1, "another than before"
    assert sticky.partition([0], filled.__getitem__) == 0, "the one that it stayed with has no leader"
    filled[0] += 200
    assert sticky.partition([0], filled.__getitem__) == 0, "there is no other"


def test_round_robin_meets_every_partition() -> None:
    turns = RoundRobinPartitions()
    assert sorted(turns.partition([4, 5, 6], lambda _: 0) for _ in range(6)) == [4, 4, 5, 5, 6, 6]
