"""State in files: what is read before a batch, what a batch that is done again finds, and what is thrown away."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipelines.streams.state import versions
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.pipelines.streams.state.versions import PartitionState, forget_after, versions_in


def state_before(directory: Path, batch: int) -> PartitionState:
    state = PartitionState(directory)
    state.load(batch)
    return state


def write(state: PartitionState, batch: int, **put: int | None) -> None:
    state.load(batch)
    for key, value in put.items():
        state.store("table").put(key, value)
    state.save(batch + 1)


def test_a_batch_sees_what_the_batches_before_it_left(tmp_path: Path) -> None:
    state = PartitionState(tmp_path)
    write(state, 0, a=1, b=1)
    write(state, 2, a=2, b=None)
    write(state, 3)
    assert state_before(tmp_path, 0).store("table").data == {}
    assert state_before(tmp_path, 1).store("table").data == {"a": 1, "b": 1}
    assert state_before(tmp_path, 2).store("table").data == {"a": 1, "b": 1}
    assert state_before(tmp_path, 9).store("table").data == {"a": 2}


def test_a_worker_follows_what_others_wrote_and_goes_back_for_a_batch_done_again(tmp_path: Path) -> None:
    one, other = PartitionState(tmp_path), PartitionState(tmp_path)
    write(one, 0, a=1)
    write(other, 1, a=2)
    write(one, 2, b=3)
    assert one.store("table").data == {"a": 2, "b": 3}
    write(one, 2, c=4)
    assert state_before(tmp_path, 3).store("table").data == {"a": 2, "c": 4}


def test_snapshots_replace_deltas_and_the_last_but_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "DELTAS_MAX", 4)
    state = PartitionState(tmp_path)
    for batch in range(14):
        write(state, batch, n=batch)
    deltas, snapshots = versions_in(tmp_path)
    assert snapshots == [8, 12]
    assert deltas == list(range(9, 15))
    for batch in range(8, 15):
        assert state_before(tmp_path, batch).store("table").data == {"n": batch - 1}
    late = PartitionState(tmp_path)
    late.version = 3
    late.store("table").put("old", 1)
    late.load(14)
    assert late.store("table").data == {"n": 13}


def test_what_was_not_committed_is_forgotten_when_a_query_starts(tmp_path: Path) -> None:
    state = PartitionState(tmp_path / "state" / "0" / "1")
    write(state, 0, a=1)
    write(state, 1, a=2)
    forget_after(LocalDirectory(tmp_path / "state"), 1)
    assert state_before(tmp_path / "state" / "0" / "1", 5).store("table").data == {"a": 1}
