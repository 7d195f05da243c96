"""Replication under a simulator: stories of trouble in which nothing acknowledged is lost, and mutants that are caught.

`make simulate-replication SEEDS=20000` tells more of them, REPLICATION_SEED=17 tells one again;
`make simulate-replication-mutants` tries each mutant for up to 2,000 seeds.
"""

from __future__ import annotations

import os

import pytest

from tests.support.replication.mutants import MUTANTS, catch
from tests.support.replication.story import LostTail, Story

SEEDS, SLICE = 40, 10


@pytest.mark.parametrize("first", range(0, SEEDS, SLICE))
def test_whatever_is_lost_or_killed_what_was_acknowledged_stays(first: int) -> None:
    alone = os.environ.get("REPLICATION_SEED")
    for seed in [int(alone)] if alone is not None else range(first, first + SLICE):
        Story(seed).run()


# Seeds in which something did not hold, each with what it needed.
SEEN = {
    1101: "a broker that leads again while it shuts down hands over again",
    12485: "a refused proposal that comes again is refused again, though the one who is to join is eligible by then",
}


@pytest.mark.parametrize("seed", SEEN)
def test_what_was_seen_once_is_not_seen_again(seed: int) -> None:
    Story(seed).run()


def test_a_follower_that_lost_its_tail_is_known_by_its_broker_epoch() -> None:
    for seed in range(5):
        LostTail(seed).run()


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    assert catch(name, range(SEEDS)) is not None, f"{name} is not caught"
