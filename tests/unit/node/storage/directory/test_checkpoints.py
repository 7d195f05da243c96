from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.node.storage.directory.checkpoints import CorruptCheckpoint, read_offsets, write_offsets

NAME = "recovery-point-offset-checkpoint"


def test_offsets_are_written_as_kafka_does_and_read_back(tmp_path: Path) -> None:
    offsets = {("orders", 1): 7, ("orders", 0): 12, ("a.b-c", 3): 0}
    write_offsets(str(tmp_path), NAME, offsets)
    assert (tmp_path / NAME).read_text() == "0\n3\na.b-c 3 0\norders 0 12\norders 1 7\n"
    assert read_offsets(str(tmp_path), NAME) == offsets


def test_a_missing_or_empty_file_has_no_offsets(tmp_path: Path) -> None:
    assert read_offsets(str(tmp_path), NAME) == {}
    (tmp_path / NAME).touch()
    assert read_offsets(str(tmp_path), NAME) == {}


@pytest.mark.parametrize("text", ["1\n0\n", "0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\nx\n", "\n"])
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(CorruptCheckpoint):
        read_offsets(str(tmp_path), NAME)
