"""Results do not depend on where batches end: for every pair of operators, and for random chains of three, the same
records one by one, in random batches and in one batch.

What aggregates show once a batch is part of what they show one by one, and ends with the same.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest


def beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chains = beside("chains")
by_key, is_part, rows_by_batch = chains.by_key, chains.is_part, chains.rows_by_batch
RECORDS = 24
CHAINS_OF_THREE = int(os.environ.get("BARNABAS_CHAINS", "60"))
FIRST_SEED = int(os.environ.get("BARNABAS_SEED", "0"))
AGGREGATES = ("count", "reduce", "tumbling", "hopping", "session", "sliding", "regrouped", "table-aggregate")


def check(names: list[tuple[str, ...]], seed: str) -> None:
    chance = random.Random(seed)
    made = chains.Chains(names)
    once = [made.shows_once(number) for number in range(len(names))]
    records = chains.random_records(made.topology, chance, RECORDS)
    one_by_one = rows_by_batch(made, records, set(range(RECORDS)), restart=False)
    silent = [names[n] for n in range(len(names)) if not any(rows[n] for rows in one_by_one)]
    assert len(silent) < len(names) / 4, silent
    for cuts in (set(), {chance.randrange(1, RECORDS) for _ in range(4)}):
        starts = [0, *sorted(cuts), RECORDS]
        batches = rows_by_batch(made, records, cuts, restart=True)
        for batch, (start, end) in zip(batches, itertools.pairwise(starts), strict=True):
            for number, shown in enumerate(batch):
                whole = [row for rows in one_by_one[start:end] for row in rows[number]]
                place = f"{names[number]}, batch {start} to {end} of {records}"
                compare(names[number], shown, whole, once[number], place)


def compare(names: tuple[str, ...], shown: Any, whole: Any, once: bool, place: str) -> None:
    if not once:
        assert by_key(shown) == by_key(whole), place
        return
    assert is_part(shown, whole), place
    if names[-1] in AGGREGATES:
        last = {key: rows[-1] for key, rows in by_key(whole).items()}
        assert {key: rows[-1] for key, rows in by_key(shown).items()} == last, place


@pytest.mark.parametrize("first", chains.OPERATORS)
def test_pairs(first: str) -> None:
    check([(first, second) for second in chains.OPERATORS], first)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + CHAINS_OF_THREE // 20))
def test_random_chains_of_three(seed: int) -> None:
    chance = random.Random(seed)
    check([tuple(chance.choices(list(chains.OPERATORS), k=3)) for _ in range(20)], str(seed))
