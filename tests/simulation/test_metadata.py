"""The metadata log on a disk that forgets: what was decided and answered is there, and the rest is a whole prefix."""

from __future__ import annotations

import pytest

from tests.support.simulated_disk_metadata import MetadataStory
from tests.support.simulated_disk_seeds import slices, tell

SEEDS = 80


@pytest.mark.parametrize("seeds", slices(SEEDS), ids=lambda seeds: f"from-{seeds[0]}")
def test_a_crash_at_any_moment_loses_no_answered_decision(seeds: range) -> None:
    for seed in seeds:
        tell(MetadataStory, seed)


def test_a_commit_without_its_fsync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.node.storage.directory.flush_task.FlushTask.run", lambda task: task.discard())

    def tell_all() -> None:
        for seed in range(100):
            tell(MetadataStory, seed)

    with pytest.raises(AssertionError, match="SIMULATION_SEED="):
        tell_all()
