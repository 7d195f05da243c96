"""The quorum under a simulator: 200 stories of trouble in which everything holds, and mutants that are caught.

`make simulate-raft SEEDS=20000` tells more of them, RAFT_SEED=17 tells one again; `make simulate-raft-mutants` tries
each mutant for up to 2,000 seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.support.raft.mutants import MUTANTS, catch
from tests.support.raft.story import Story

SEEDS = 200
SLICE = 25
# The seeds that catch the mutants which need some luck; the others are caught by the first ones.
LUCKY = {
    "voter_change_before_the_former_is_committed": range(0, 60),
    "high_watermark_that_goes_back": range(0, 60),
}


@pytest.mark.parametrize("first", range(0, SEEDS, SLICE))
def test_whatever_is_lost_or_killed_the_quorum_agrees_and_goes_on(first: int) -> None:
    alone = os.environ.get("RAFT_SEED")
    for seed in [int(alone)] if alone is not None else range(first, first + SLICE):
        Story(seed).run()


# Seeds in which something did not hold, each with what it needed.
SEEN = {
    18588: "a leader that passes the epochs of a candidate which none of its voters hears",
}


@pytest.mark.parametrize("seed", SEEN)
def test_what_was_seen_once_is_not_seen_again(seed: int) -> None:
    Story(seed).run()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    caught = catch(name, LUCKY.get(name, range(0, 20)))
    assert caught is not None, f"{name} is not caught"
