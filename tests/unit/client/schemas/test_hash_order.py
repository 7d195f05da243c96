"""As java.util.HashSet iterates: `new HashSet<>(old.keySet())`, then `addAll(new.keySet())`."""

from __future__ import annotations

from barnabas.client.schemas.hash_order import in_hash_order


def test_small_numbers_come_in_their_order() -> None:
    assert in_hash_order([9, 2, 7], [1, 9]) == [1, 2, 7, 9]


def test_numbers_that_share_a_bucket_come_as_they_came() -> None:
    assert in_hash_order([17, 3], [1]) == [17, 1, 3]  # 17 and 1 of 16 buckets


def test_a_table_grows() -> None:
    assert in_hash_order(range(12, 24), [1]) == [1, *range(12, 24)]


def test_names_come_in_the_order_of_their_hashes() -> None:
    assert in_hash_order(["d", "a"], ["c"]) == ["a", "c", "d"]
    assert in_hash_order(["id", "name"], []) == ["name", "id"]  # their hashes are 3355 and 3373707
