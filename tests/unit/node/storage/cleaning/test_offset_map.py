from __future__ import annotations

import random

from barnabas.node.storage.cleaning.offset_map import SLOT_BYTES, OffsetMap, prime_below


def test_a_full_table_still_finds_the_latest_offset_of_every_key() -> None:
    table = OffsetMap(SLOT_BYTES * 5_000, 0.9, expected_keys=1_000_000)
    latest: dict[bytes, int] = {}
    chance = random.Random(1)
    offset = 0
    while table.size < table.keys_max:
        key = b"key-%d" % chance.randrange(10_000)
        table.put(key, offset)
        latest[key] = offset
        offset += 1
    assert table.size == len(latest) == int(prime_below(5_000) * 0.9)
    assert all(table.get(key) == offset for key, offset in latest.items())
    assert table.get(b"another") == -1


def test_offset_0_is_found() -> None:
    table = OffsetMap(10_000, 0.9, expected_keys=10)
    table.put(b"", 0)
    assert table.get(b"") == 0


def test_the_table_is_as_large_as_its_keys_need() -> None:
    assert OffsetMap(1 << 40, 0.9, expected_keys=1_000).keys_max < 2_000


def test_even_the_smallest_memory_holds_a_key() -> None:
    table = OffsetMap(0, 0.9, expected_keys=100)
    assert table.keys_max == 1 or table.keys_max == 2
    table.put(b"a", 5)
    assert (table.get(b"a"), table.get(b"b")) == (5, -1)


def test_primes() -> None:
    assert [prime_below(limit) for limit in (2, 3, 4, 100, 7919)] == [2, 3, 3, 97, 7919]
