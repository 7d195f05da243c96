"""Where state lies: the same story on a disk and in an S3 server, what is fsynced, and what goes wrong."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.pipelines.streams.checkpoint import committed_batch
from barnabas.pipelines.streams.errors import StateDamaged, StateUnreachable
from barnabas.pipelines.streams.state import storage, versions
from barnabas.pipelines.streams.state.remote import s3_options, storage_settings
from barnabas.pipelines.streams.state.storage import Directory, LocalDirectory, Storage, settle
from barnabas.pipelines.streams.state.versions import PartitionState, forget_after
from barnabas.streams import StreamsError, open_store
from tests.support.object_store import ObjectStore, ObjectStoreMissing, object_store

BUCKET = "checkpoints"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    try:
        with object_store() as store:
            store.make_bucket(BUCKET)
            yield store
    except ObjectStoreMissing as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["disk", "s3"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Directory:
    if request.param == "disk":
        return Storage().at(tmp_path / "checkpoint")
    server: ObjectStore = request.getfixturevalue("server")
    return Storage(server.settings).at(f"s3a://{BUCKET}/{tmp_path.name}")


def test_files_are_written_whole_listed_and_removed(directory: Directory, tmp_path: Path) -> None:
    below = directory.under("state", "0")
    assert (below.names(), below.walk(), below.has("1.delta")) == ([], [], False)
    below.write("1.delta", b"one", b"more")
    below.write("1.delta", b"two", b"more")
    below.under("3").write("2.delta", b"")
    assert (below.read("1.delta"), below.size("1.delta")) == (b"twomore", 7)
    assert sorted(below.names()) == ["1.delta", "3"]
    assert sorted(directory.walk()) == ["state/0/1.delta", "state/0/3/2.delta"]
    with pytest.raises(FileNotFoundError):
        below.read("9.delta")
    (tmp_path / "table").write_bytes(b"x" * 100_000)
    below.store(tmp_path / "table", "stored")
    below.fetch("stored", tmp_path / "copy", linked=True)
    assert (tmp_path / "copy").read_bytes() == b"x" * 100_000
    below.remove("1.delta")
    below.remove("1.delta")
    assert sorted(below.names()) == ["3", "stored"]
    directory.remove_all()
    assert directory.walk() == []


def write(state: PartitionState, batch: int, entries: dict[Any, Any]) -> None:
    state.load(batch)
    for key, value in entries.items():
        state.store("table").put(key, value)
    state.save(batch + 1)


def content(directory: Directory, batch: int) -> dict[Any, Any]:
    state = PartitionState(directory, cache_bytes=1000)
    state.load(batch)
    return dict(state.store("table").data.items())


NUMBERS = {f"key-{number}": number for number in range(300)}


def test_workers_share_state_that_is_larger_than_memory(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "SIZE_LOOK_DELTAS", 1)
    monkeypatch.setattr(versions, "DELTAS_MAX", 2)
    one, other = (PartitionState(directory.under("0", "1"), cache_bytes=1000) for _ in range(2))
    write(one, 0, NUMBERS)
    assert one.tables is not None
    write(other, 1, {"key-1": None, "new": 1})
    write(one, 2, {"new": 2})
    write(one, 2, {"new": 3})  # done again
    for batch in range(3, 8):
        write((one, other)[batch % 2], batch, {"last": batch})
    rest = {key: value for key, value in NUMBERS.items() if key != "key-1"}
    assert content(directory.under("0", "1"), 8) == rest | {"new": 3, "last": 7}
    forget_after(directory, 7)
    assert content(directory.under("0", "1"), 8) == rest | {"new": 3, "last": 6}


def test_a_damaged_or_missing_file_is_told_by_name(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(versions, "DELTAS_MAX", 3)
    state = PartitionState(directory)
    for batch in range(5):
        write(state, batch, {"n": batch})
    directory.write("3.snapshot", b"BST1xxxx", pickle.dumps({}))
    assert content(directory, 5) == {"n": 4}  # from the deltas before it
    assert f"state file {directory.address}/3.snapshot is damaged" in caplog.text
    directory.remove("4.delta")
    with pytest.raises(StateDamaged, match=f"state file {directory.address}/4.delta is missing"):
        content(directory, 5)


def test_a_worker_that_meets_a_damaged_delta_starts_from_the_snapshot_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(versions, "DELTAS_MAX", 3)
    one, other = PartitionState(tmp_path), PartitionState(tmp_path)
    write(one, 0, {"n": 0})
    other.load(1)
    for batch in range(1, 4):
        write(one, batch, {"n": batch})
    (tmp_path / "2.delta").write_bytes(b"BST1")
    other.load(4)
    assert other.store("table").data == {"n": 3}
    assert "2.delta is damaged" in caplog.text


def test_spark_s_settings_reach_the_object_store() -> None:
    given = {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000/",
        "fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "anna",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.bucket.other.access.key": "bert",
        "spark.sql.shuffle.partitions": "2",
    }
    expected = {
        "endpoint_override": "minio:9000",
        "scheme": "http",
        "force_virtual_addressing": False,
        "region": "us-east-1",
        "access_key": "anna",
        "secret_key": "s",
    }
    settings = storage_settings(given)
    assert "spark.sql.shuffle.partitions" not in settings
    assert s3_options("one", settings) == expected
    assert s3_options("other", settings) == expected | {"access_key": "bert"}
    assert s3_options("b", {"fs.s3a.endpoint": "s3.example.com", "fs.s3a.endpoint.region": "eu-west-1"}) == {
        "endpoint_override": "s3.example.com",
        "scheme": "https",
        "force_virtual_addressing": True,
        "region": "eu-west-1",
    }
    anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert s3_options("b", {"fs.s3a.aws.credentials.provider": anonymous}) == {"anonymous": True}


def test_a_store_is_asked_with_the_settings_of_its_storage(server: ObjectStore) -> None:
    address = f"s3a://{BUCKET}/asked"
    checkpoint = Storage(server.settings).at(address)
    facts = '{"counts": {"directory": "0", "inner": "c", "shape": "keys", "size_ms": 0, "columns": []}}'
    checkpoint.under("barnabas").write("stores.json", facts.encode())
    state = PartitionState(checkpoint.under("barnabas", "state", "0", "0"))
    state.store("c").put("hello", 3)
    state.save(1)
    assert open_store(address, "counts", options=server.settings).get("hello") == 3
    with pytest.raises(StreamsError, match="is no checkpoint of a topology"):
        open_store(f"s3a://{BUCKET}/elsewhere", "counts", options=server.settings)


def test_a_bucket_that_is_not_there_is_one_sentence(server: ObjectStore) -> None:
    nowhere = Storage(server.settings).at("s3a://nowhere/checkpoint")
    with pytest.raises(StateUnreachable, match=r"state can't be written to s3a://nowhere/checkpoint/1.delta: .*bucket"):
        nowhere.write("1.delta", b"x")


def test_what_is_written_is_fsynced_in_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle()  # of others
    synced: list[Path] = []
    monkeypatch.setattr(storage, "_fsync", synced.append)
    directory = LocalDirectory(tmp_path / "state" / "0")
    directory.write("1.delta", b"x")
    directory.write("1.snapshot", b"x")
    assert synced == []
    settle(tmp_path / "offsets")
    own = tmp_path / "state" / "0"
    assert set(synced[:3]) == {own / "1.delta", own / "1.snapshot", tmp_path / "offsets"}
    assert set(synced[3:]) == {own, tmp_path / "state", tmp_path}  # directories that are new are names in others
    assert len(synced) == 6
    synced.clear()
    settle()
    assert synced == []
    Storage(synced=False).at(tmp_path).write("thrown away", b"x")
    settle()
    assert synced == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = PartitionState(tmp_path)
    write(state, 0, {"n": 0})
    replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if str(target).endswith("2.delta"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StateUnreachable, match=r"can't be written to .*/2.delta: No space left on device; "):
        write(state, 1, {"n": 1})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["1.delta"]
    monkeypatch.undo()
    again = PartitionState(tmp_path)
    write(again, 1, {"n": 1})
    assert content(LocalDirectory(tmp_path), 2) == {"n": 1}


def test_a_checkpoint_without_permission_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateUnreachable, match=r"state can't be written to .*/file/0/1.delta: (File exists|Not a dir)"):
        LocalDirectory(tmp_path / "file" / "0").write("1.delta", b"x")
    if os.geteuid() == 0:
        return  # everything is permitted
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StateUnreachable, match=r"state can't be written to .*/locked/1.delta: Permission denied"):
        LocalDirectory(tmp_path / "locked").write("1.delta", b"x")


def test_offsets_of_a_batch_tell_that_the_one_before_it_is_done(tmp_path: Path) -> None:
    """A lost machine may have lost Spark's last notes of batches that were done."""
    directory = LocalDirectory(tmp_path)
    assert committed_batch(directory) is None
    directory.under("offsets").write("0", b"")
    assert committed_batch(directory) is None
    directory.under("commits").write("0", b"")
    assert committed_batch(directory) == 0
    directory.under("offsets").write("7", b"")
    assert committed_batch(directory) == 6
