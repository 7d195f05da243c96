"""Formatting on first use: what is written, what is refused, and a crash between any two steps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.node.raft.errors import StartError
from barnabas.node.raft.snapshots import read_snapshot
from barnabas.node.raft.voters import voters_record
from barnabas.node.storage.directory.meta_properties import read_meta_properties
from barnabas.wire.records import metadata as wire
from barnabas.wire.records.raft import KRaftVersionRecord

if TYPE_CHECKING:
    from conftest import Directory

FORMATTED = [
    "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
    "bootstrap.checkpoint",
    "meta.properties",
]


def test_an_empty_directory_is_formatted_with_our_level_and_one_voter(empty: Directory) -> None:
    assert empty.claim(cluster_id="cluster-A") == "cluster-A"
    assert list(empty.files()) == FORMATTED
    meta = read_meta_properties(str(empty.root))
    assert meta is not None
    assert (meta.cluster_id, meta.node_id) == ("cluster-A", 1)
    bootstrap = read_snapshot(empty.root / "bootstrap.checkpoint")
    assert bootstrap.records == [
        wire.FeatureLevelRecord(name="metadata.version", feature_level=30),
        wire.FeatureLevelRecord(name="transaction.version", feature_level=2),
        wire.FeatureLevelRecord(name="group.version", feature_level=1),
        wire.FeatureLevelRecord(name="share.version", feature_level=1),
        wire.FeatureLevelRecord(name="streams.version", feature_level=1),
        wire.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    ]
    first = read_snapshot(empty.log / "00000000000000000000-0000000000.checkpoint")
    assert first.control_records[1:3] == [
        KRaftVersionRecord(k_raft_version=1),
        voters_record(1, meta.directory_id, [empty.controller]),
    ]
    assert first.records == []


def test_a_cluster_without_a_given_id_gets_a_random_one_and_keeps_it(empty: Directory) -> None:
    cluster_id = empty.claim(cluster_id=None)
    assert len(cluster_id) == 22
    before = empty.files()
    assert empty.claim(cluster_id=None) == cluster_id
    assert empty.claim(cluster_id=cluster_id) == cluster_id
    assert empty.files() == before


def test_further_directories_join_the_same_cluster_with_ids_of_their_own(empty: Directory, tmp_path: Path) -> None:
    empty.claim(tmp_path / "second")
    empty.claim(tmp_path / "second", tmp_path / "third")
    metas = [read_meta_properties(str(path)) for path in (empty.root, tmp_path / "second", tmp_path / "third")]
    assert len({meta.directory_id for meta in metas if meta}) == 3
    assert {meta.cluster_id for meta in metas if meta} == {"cluster-A"}
    assert sorted(path.name for path in (tmp_path / "third").iterdir()) == [".lock", "meta.properties"]


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ({"cluster_id": "cluster-B"}, "belongs to cluster cluster-A, not to cluster cluster-B"),
        ({"node_id": 2}, "belongs to node 1, and this is node 2"),
    ],
)
def test_the_directory_of_another_cluster_or_node_is_refused_untouched(
    directory: Directory, tmp_path: Path, claim: dict[str, Any], sentence: str
) -> None:
    before = directory.files()
    with pytest.raises(StartError, match=sentence):
        directory.claim(tmp_path / "new", **claim)
    assert directory.files() == before
    assert not (tmp_path / "new" / "meta.properties").exists()


def test_a_copied_directory_is_refused(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "meta.properties").write_bytes((directory.root / "meta.properties").read_bytes())
    with pytest.raises(StartError, match="are copies of one directory"):
        directory.claim(tmp_path / "copy")


def test_a_lost_metadata_directory_is_not_replaced_by_an_empty_one(
    directory: Directory, empty: Directory, tmp_path: Path
) -> None:
    directory.claim(tmp_path / "second")
    for path in (
        directory.log / FORMATTED[0].split("/")[1],
        directory.root / FORMATTED[1],
        directory.root / FORMATTED[2],
    ):
        path.unlink()
    with pytest.raises(StartError, match="has no metadata log, but other directories are of cluster cluster-A"):
        directory.claim(tmp_path / "second")


def test_metadata_without_its_meta_properties_is_left_alone(directory: Directory) -> None:
    (directory.log / "00000000000000000000.log").touch()
    (directory.root / "meta.properties").unlink()
    before = directory.files()
    with pytest.raises(StartError, match=r"but no meta\.properties, and is left as it is"):
        directory.claim()
    assert directory.files() == before


class Crash(BaseException):
    """The process ends here."""


class Steps:
    """Lets so many system calls happen, and ends the process at the next one."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def count(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.left == 0:
                raise Crash
            self.left -= 1
            return original(*args, **options)

        return call


def crashes(directory: Directory, after: int) -> bool:
    steps = Steps(after)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "rename", "mkdir", "fsync", "open", "close"):
            patch.setattr(os, name, steps.count(getattr(os, name)))
        try:
            directory.claim()
        except Crash:
            return True
    return False


def test_a_crash_at_any_step_leaves_a_directory_that_the_next_start_formats(tmp_path: Path, empty: Directory) -> None:
    for after in range(200):
        directory = type(empty)(tmp_path / f"crash-{after}")
        directory.root.mkdir()
        crashed = crashes(directory, after)
        was_formatted = (directory.root / "meta.properties").exists()
        before = directory.files()
        directory.claim()
        assert directory.load().level == 30
        assert set(FORMATTED) <= set(directory.files())
        if was_formatted:
            assert {name: directory.files()[name] for name in FORMATTED} == {name: before[name] for name in FORMATTED}
        if not crashed:
            assert after > 20
            return
    pytest.fail("a format never took so many steps")


def test_with_static_voters_the_log_names_none(empty: Directory) -> None:
    empty.claim(cluster_id="cluster-A", voters_are_static=True)
    assert list(empty.files()) == ["bootstrap.checkpoint", "meta.properties"]
    assert empty.load().kraft_version == 0
