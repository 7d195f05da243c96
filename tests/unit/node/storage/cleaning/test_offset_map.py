from __future__ import annotations

import random

import pytest

from barnabas.node.storage.cleaning.offset_map import NOTHING, SLOT_BYTES, OffsetMap, prime_below


@pytest.mark.parametrize("at_once", [1, 50])
def test_a_full_table_still_finds_the_latest_offset_of_every_key(at_once: int) -> None:
    table = OffsetMap(SLOT_BYTES * 5_000, 0.9, expected_keys=1_000_000)
    latest: dict[bytes, int] = {}
    chance = random.Random(1)
    offset = 0
    while table.size < table.keys_max:
        # Of those that come together some come twice, and at the end there is not room for all.
        keys = [b"key-%d" % chance.choice((chance.randrange(10_000), 7)) for _ in range(at_once)]
        offsets = range(offset, offset + at_once)
        new = set(keys) - set(latest)
        assert table.put_all(keys, offsets) == (len(latest) + len(new) <= table.keys_max)
        if table.size < table.keys_max or len(latest) + len(new) == table.keys_max:
            latest.update(zip(keys, offsets, strict=True))
        offset += at_once
        assert table.size == min(len(latest | dict.fromkeys(new, 0)), table.keys_max)
    assert table.keys_max == int(prime_below(5_000) * 0.9)
    assert not table.put_all([b"another"], [offset])
    latest[b"key-7"] = offset
    assert table.put_all([b"key-7"], [offset])
    last = offset - at_once  # of the last that came, some had room
    found = table.latest_of([*latest, *(b"other-%d" % number for number in range(20_000))])
    assert all(one == two or one >= last for one, two in zip(found, latest.values(), strict=False))
    assert set(found[len(latest) :]) == {NOTHING}
    assert [table.latest_of([key])[0] for key in latest] == found[: len(latest)]


def test_offset_0_is_found() -> None:
    table = OffsetMap(10_000, 0.9, expected_keys=10)
    assert table.put_all([b""], [0])
    assert table.latest_of([b""]) == [0]


def test_the_table_is_as_large_as_its_keys_need() -> None:
    assert 1_000 <= OffsetMap(1 << 40, 0.9, expected_keys=1_000).keys_max < 2_000


def test_even_the_smallest_memory_holds_a_key() -> None:
    table = OffsetMap(0, 0.9, expected_keys=100)
    assert 1 <= table.keys_max <= 2
    assert table.put_all([b"a"], [5])
    assert table.latest_of([b"a", b"b"]) == [5, NOTHING]


def test_keys_move_from_the_dict_into_the_table_when_they_are_many() -> None:
    table = OffsetMap(SLOT_BYTES * 20_000, 0.9, expected_keys=1_000_000)
    found = []
    for offset in range(5_000):
        assert table.put_all([b"key-%d" % (offset % 3_000)], [offset])
        found += table.latest_of([b"key-0"])
    assert table.size == 3_000
    assert found == [0] * 3_000 + [3_000] * 2_000


def test_primes() -> None:
    assert [prime_below(limit) for limit in (2, 3, 4, 100, 7919)] == [2, 3, 3, 97, 7919]
