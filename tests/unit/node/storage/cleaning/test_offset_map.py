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
        assert table.put_all([(key, offset)])
        latest[key] = offset
        offset += 1
    assert table.size == len(latest) == int(prime_below(5_000) * 0.9)
    assert not table.put_all([(b"another", offset)])
    some_key = next(iter(latest))
    latest[some_key] = offset
    assert table.put_all([(some_key, offset)])
    latest_offset = table.getter()
    assert all(latest_offset(key) == offset for key, offset in latest.items())
    assert latest_offset(b"another") is None


def test_offset_0_is_found() -> None:
    table = OffsetMap(10_000, 0.9, expected_keys=10)
    assert table.put_all([(b"", 0)])
    assert table.getter()(b"") == 0


def test_the_table_is_as_large_as_its_keys_need() -> None:
    assert 1_000 <= OffsetMap(1 << 40, 0.9, expected_keys=1_000).keys_max < 2_000


def test_even_the_smallest_memory_holds_a_key() -> None:
    table = OffsetMap(0, 0.9, expected_keys=100)
    assert 1 <= table.keys_max <= 2
    assert table.put_all([(b"a", 5)])
    assert (table.getter()(b"a"), table.getter()(b"b")) == (5, None)


def test_keys_move_from_the_dict_into_the_table_when_they_are_many() -> None:
    table = OffsetMap(SLOT_BYTES * 20_000, 0.9, expected_keys=1_000_000)
    found = []
    for offset in range(5_000):
        assert table.put_all([(b"key-%d" % (offset % 3_000), offset)])
        found.append(table.getter()(b"key-0"))
    assert table.size == 3_000
    assert found == [0] * 3_000 + [3_000] * 2_000


def test_primes() -> None:
    assert [prime_below(limit) for limit in (2, 3, 4, 100, 7919)] == [2, 3, 3, 97, 7919]
