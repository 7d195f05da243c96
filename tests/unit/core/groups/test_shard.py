"""Groups of one partition of __consumer_offsets as a whole."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.core.coordinator.decision import Decision
from barnabas.core.groups.commits import Commit, Committer
from barnabas.core.groups.shard import ORDERED_GROUPS_MAX, GroupShard
from barnabas.wire.errors import ErrorCode

from .stage import Stage


def commit(shard: GroupShard, group_id: str) -> Decision[list[ErrorCode]]:
    return shard.commits.commit(Committer(group_id), [Commit("t", 0, 1)])


def groups_of(stage: Stage, count: int) -> list[str]:
    for number in range(1, count + 1):
        stage.run(partial(commit, group_id=f"grp-{number}"))
    return [group.id for group in stage.shard.list_groups((), ())]


@pytest.mark.parametrize(
    ("count", "listed"),
    [(3, ["grp-2", "grp-1", "grp-3"]), (6, ["grp-2", "grp-4", "grp-1", "grp-6", "grp-3", "grp-5"])],
)
def test_groups_are_listed_in_the_order_of_kafkas_map(count: int, listed: list[str]) -> None:
    assert groups_of(Stage(), count) == listed


def test_of_many_groups_all_are_listed() -> None:
    count = ORDERED_GROUPS_MAX + 1
    assert sorted(groups_of(Stage(), count)) == sorted(f"grp-{number}" for number in range(1, count + 1))
