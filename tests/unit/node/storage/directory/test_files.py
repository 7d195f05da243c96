from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.node.storage.directory import files as storage_files
from barnabas.node.storage.directory.files import (
    FileHandles,
    FileRange,
    PooledFile,
    offset_name,
    offset_of,
    write_atomically,
)


def test_names_carry_offsets() -> None:
    assert offset_name(42, ".log") == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log.deleted") == 42
    assert offset_of("leader-epoch-checkpoint") is None
    assert offset_of("00000000000000000042-0000000001.checkpoint") is None


def test_no_more_than_the_limit_is_open_and_everybody_can_be_used(tmp_path: Path) -> None:
    handles = FileHandles(limit=8)
    files = [PooledFile(handles, str(tmp_path), f"{i}.log") for i in range(30)]
    for _ in range(3):
        for i, file in enumerate(files):
            os.pwrite(file.fileno(), b"%2d" % i, 0)
            assert sum(each.fd >= 0 for each in files) <= 8
    assert [os.pread(file.fileno(), 2, 0) for file in files] == [b"%2d" % i for i in range(30)]
    for file in files:
        file.close()
    assert len(handles) == 0


def test_a_file_in_use_outlives_the_others(tmp_path: Path) -> None:
    handles = FileHandles(limit=4)
    hot = PooledFile(handles, str(tmp_path), "hot")
    fd = hot.fileno()
    for i in range(10):
        PooledFile(handles, str(tmp_path), str(i)).fileno()
        assert hot.fileno() == fd


def test_an_atomic_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_atomically(str(path), b"old and longer")
    write_atomically(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint"]


def test_a_range_is_read_from_an_open_file_a_closed_one_and_a_renamed_one_but_not_from_one_that_is_gone(
    tmp_path: Path,
) -> None:
    handles = FileHandles()
    file = PooledFile(handles, str(tmp_path), "a.log")
    os.write(file.fileno(), b"0123456789")
    part = FileRange(file, 2, 9)
    assert len(part) == 7
    assert part.read(0, 7) == b"2345678"
    file.close()
    assert part.read(3, 2) == b"56"
    assert len(handles) == 0
    file.rename("a.log.deleted")
    assert part.read(6, 1) == b"8"
    (tmp_path / "a.log.deleted").unlink()
    with pytest.raises(FileNotFoundError):
        part.read(0, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_range_fails_where_its_file_was_cut_off_meanwhile_and_only_there(tmp_path: Path) -> None:
    file = PooledFile(FileHandles(), str(tmp_path), "a.log")
    os.write(file.fileno(), b"0123456789")
    below, across = FileRange(file, 0, 5), FileRange(file, 3, 9)
    file.cut(5)
    os.pwrite(file.fileno(), b"abcde", 5)
    assert below.read(0, 5) == b"01234"
    with pytest.raises(OSError, match="truncated meanwhile"):
        across.read(0, 6)
    after = FileRange(file, 3, 9)
    assert after.read(0, 6) == b"34abcd"
    file.cut(3)
    for each in (below, after):
        with pytest.raises(OSError, match="truncated meanwhile"):
            each.read(0, 1)


def test_a_range_is_not_read_from_another_file_that_has_the_name_now(tmp_path: Path) -> None:
    file = PooledFile(FileHandles(), str(tmp_path), "a.log")
    os.write(file.fileno(), b"before compaction")
    part = FileRange(file, 0, 6)
    file.close()
    file.rename("a.log.deleted")
    (tmp_path / "a.log").write_bytes(b"after it")
    assert part.read(0, 6) == b"before"
    (tmp_path / "a.log.deleted").unlink()
    with pytest.raises(FileNotFoundError):
        part.read(0, 6)


def test_where_a_part_of_a_file_cannot_be_written_back_all_of_it_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(storage_files, "fdatasync", synced.append)
    with open(tmp_path / "file", "wb") as file:
        file.write(b"x" * 10_000)
        file.flush()
        storage_files.write_back(file.fileno(), 0, 5_000)
        storage_files.write_back(file.fileno(), 0, 5_000, wait=True)
        before = len(synced)
        reader, writer = os.pipe()
        storage_files.write_back(writer, 0, 1)
        assert synced[before:] == [writer]
        os.close(reader)
        os.close(writer)
        with pytest.raises(OSError, match="Bad file descriptor"):
            storage_files.write_back(writer, 0, 1)
