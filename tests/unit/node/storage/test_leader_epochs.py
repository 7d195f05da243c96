from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.node.storage.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 0), (4, 100), (7, 250)])


def test_an_epoch_ends_where_the_next_begins(epochs: LeaderEpochs) -> None:
    assert epochs.end_offset_for(7, 300) == (7, 300)
    assert epochs.end_offset_for(4, 300) == (4, 250)
    assert epochs.end_offset_for(6, 300) == (4, 250)
    assert epochs.end_offset_for(2, 300) == (2, 100)
    assert epochs.end_offset_for(1, 300) == (1, 0)
    assert epochs.end_offset_for(8, 300) == (-1, -1)
    assert epochs.end_offset_for(-1, 300) == (-1, -1)


def test_an_offset_belongs_to_an_epoch(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_for_offset(offset) for offset in (0, 99, 100, 249, 250, 999)] == [2, 2, 4, 4, 7, 7]
    epochs.truncate_from_start(10)
    assert epochs.epoch_for_offset(5) == -1


def test_a_new_epoch_drops_what_it_contradicts(epochs: LeaderEpochs) -> None:
    epochs.assign(7, 260)
    assert not epochs.dirty
    epochs.assign(9, 200)
    assert epochs.entries() == [(2, 0), (4, 100), (9, 200)]
    epochs.assign(3, 300)
    assert epochs.entries() == [(2, 0), (3, 300)]
    assert epochs.dirty


def test_truncation_from_both_ends(epochs: LeaderEpochs) -> None:
    epochs.truncate_from_end(250)
    assert epochs.entries() == [(2, 0), (4, 100)]
    assert epochs.latest == 4
    epochs.truncate_from_start(150)
    assert epochs.entries() == [(4, 150)]
    epochs.truncate_from_end(0)
    assert (epochs.entries(), epochs.latest) == ([], -1)


def test_the_file_is_kafka_s_and_a_damaged_one_is_empty(epochs: LeaderEpochs, tmp_path: Path) -> None:
    assert epochs.render() == b"0\n3\n2 0\n4 100\n7 250\n"
    file = tmp_path / "leader-epoch-checkpoint"
    file.write_bytes(epochs.render())
    assert LeaderEpochs.load(str(tmp_path)).entries() == epochs.entries()
    file.write_bytes(b"0\n3\n2 0\n")
    assert LeaderEpochs.load(str(tmp_path)).entries() == []
    file.unlink()
    assert LeaderEpochs.load(str(tmp_path)).entries() == []
