"""Disks that fail under a running node: full, read-only, with an fsync that fails, or not to be used at all.

What was acknowledged is there when the disk is well again; the node says in a sentence what has failed, and goes on
with the other directories if it has any.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.errors import ClientError
from barnabas.testing import Node
from barnabas.testing.process import StartFailed
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest

Start = Callable[..., Node]
SmallDisk = Callable[..., Path]


def fill_bytes(disk: Path, leave: int = 0) -> Path:
    filler = disk / "filler"
    with open(filler, "wb") as file, suppress(OSError):
        while True:
            file.write(bytes(65536))
            file.flush()
    os.truncate(filler, max(filler.stat().st_size - leave, 0))
    return filler


def fill_names(disk: Path) -> None:
    """No file can be made any more, while those that are there can grow."""
    with suppress(OSError):
        for number in range(100_000):
            (disk / f"filler-{number}").touch()


def relieve(disk: Path) -> None:
    for path in disk.glob("filler*"):
        path.unlink()


def keyed(number: int, size: int = 500) -> bytes:
    return bytes(build_batch([Record(0, 1_700_000_000_000 + number, b"key-%d" % (number % 5), b"%d" % number * size)]))


def write_until_refused(client: Any, topic: str, tools: SimpleNamespace, limit: int = 5000) -> int:
    """How many were acknowledged."""
    for number in range(limit):
        try:
            answer = client.produce(topic, tools.batch_of(number))
        except ClientError:
            return number
        if answer.error:
            assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR
            return number
    raise AssertionError("nothing was refused")


def ended(node: Node, tools: SimpleNamespace) -> str:
    """The last words of a node that had to stop."""
    tools.wait_until(lambda: not node.running)
    last = node.log().splitlines()[-1]
    assert last.startswith("barnabas server: The "), node.log()[-3000:]
    return last


def acknowledged_is_there(node: Node, topic: str, count: int, tools: SimpleNamespace) -> None:
    client = tools.Client(node)
    found, error = client.read(topic)
    assert error == 0
    assert list(found)[:count] == list(range(count))
    assert all(value == tools.value_of(offset) for offset, value in found.items())
    assert len(found) <= count + 1  # one may have been written and not answered
    assert client.produce(topic, tools.batch_of(len(found))) == (0, len(found))
    client.close()


@pytest.mark.parametrize("what", ["append", "roll", "checkpoint", "metadata append"])
def test_a_full_disk_stops_a_node_that_has_no_other(
    start: Start, small_disk: SmallDisk, tools: SimpleNamespace, what: str
) -> None:
    disk = small_disk(files=200)
    node = start(
        disk / "data", **{} if what == "checkpoint" else {"log.flush.offset.checkpoint.interval.ms": 3_600_000}
    )
    client = tools.Client(node)
    assert client.create_topics(["t"], segment_bytes=4000 if what == "roll" else 1 << 20) == [0]
    written = 0
    if what == "append":
        fill_bytes(disk, leave=100_000)
    elif what in ("roll", "checkpoint"):
        fill_names(disk)
    if what == "metadata append":
        for number in range(10):
            assert client.produce("t", tools.batch_of(number)) == (0, number)
        written = 10
        fill_bytes(disk)
        codes = []
        for number in range(100):  # until the last page of the metadata's file is full
            try:
                codes += client.create_topics([f"new-{number}"])
            except ClientError:
                codes.append(-1)
            if codes[-1]:
                break
        assert codes[-1] in (-1, ErrorCode.NOT_CONTROLLER)
        created = len(codes) - 1
    elif what != "checkpoint":  # that comes by itself
        written = write_until_refused(client, "t", tools)
    client.close()
    assert "No space left on device" in ended(node, tools)
    relieve(disk)
    node.start()
    if what == "checkpoint":
        return
    acknowledged_is_there(node, "t", written, tools)
    if what == "metadata append":
        client = tools.Client(node)
        # Those that were answered are there, and the one that was refused may be made now.
        wanted = [36] * created + [0]
        assert client.create_topics([f"new-{number}" for number in range(created + 1)]) == wanted
        client.close()


def test_compaction_waits_for_room_on_a_full_disk(start: Start, small_disk: SmallDisk, tools: SimpleNamespace) -> None:
    """Two more files can be made: enough for a checkpoint, not for a cleaned segment."""
    disk = small_disk(size="4m", files=300)
    node = start(disk / "data", **{"log.cleaner.backoff.ms": 20, "log.flush.offset.checkpoint.interval.ms": 3_600_000})
    client = tools.Client(node)
    compacted = {"cleanup_policy": "compact", "segment_bytes": 10_000, "min_cleanable_dirty_ratio": 1.0}
    assert client.create_topics(["t"], **compacted) == [0]
    for offset in range(60):
        assert client.produce("t", keyed(offset)) == (0, offset)
    before = client.read("t")
    fill_names(disk)
    for number in range(2):
        (disk / f"filler-{number}").unlink()
    client.configure("t", min_cleanable_dirty_ratio=0.01)
    tools.wait_until(lambda: "the disk is full, compacting t-0 later: " in node.log())
    assert client.read("t") == before
    assert client.produce("t", keyed(60)) == (0, 60)
    tools.wait_until(lambda: not list((disk / "data" / "t-0").glob("*.cleaned")))
    relieve(disk)
    node.restart()
    client.close()
    client = tools.Client(node)
    latest = {offset % 5: offset for offset in range(61)}
    tools.wait_until(lambda: "t-0 is clean from offset 0" in node.log())
    found, error = client.read("t")
    assert error == 0
    assert set(latest.values()) <= set(found)
    assert len(found) < 61
    client.close()


def two_directories(root: Path, start: Start, second: Path, **config: object) -> Node:
    return start(root / "a", log_dirs=f"{root / 'a'},{second}", **config)


def directory_errors(client: Any) -> dict[str, int]:
    answer = client.connection.request(DescribeLogDirsRequest(topics=None), 4)
    return {Path(result.log_dir).name: result.error_code for result in answer.results}


def chattr(flag: str, path: Path) -> None:
    try:
        done = subprocess.run(["chattr", flag, path], capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no directory can be made read-only here: {error}")
    if done.returncode:
        pytest.skip(f"no directory can be made read-only here: {done.stderr.strip()}")


@pytest.fixture
def read_only() -> Iterator[Callable[[Path], None]]:
    made: list[Path] = []

    def make(path: Path) -> None:
        chattr("+i", path)
        made.append(path)

    yield make
    for path in made:
        subprocess.run(["chattr", "-i", path], check=False, capture_output=True)


def test_a_directory_that_becomes_read_only_takes_its_own_partitions_offline(
    tmp_path: Path, start: Start, read_only: Callable[[Path], None], tools: SimpleNamespace
) -> None:
    node = two_directories(tmp_path, start, tmp_path / "b", replica_high_watermark_checkpoint_interval_ms=3_600_000)
    client = tools.Client(node)
    assert client.create_topics(["x", "y"], segment_bytes=4000) == [0, 0]
    [lost] = [path.name[:-2] for path in (tmp_path / "b").glob("*-0")]
    kept = "x" if lost == "y" else "y"
    assert client.produce(lost, tools.batch_of(0)) == (0, 0)
    read_only(tmp_path / "b" / f"{lost}-0")
    read_only(tmp_path / "b")
    written = write_until_refused(client, lost, tools)
    assert written > 1
    assert directory_errors(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    assert client.produce(kept, tools.batch_of(0)) == (0, 0)
    assert "has failed and is offline: " in node.log()
    client.close()
    # It is not well at the next start either, and does not keep the node from starting.
    node.restart()
    client = tools.Client(node)
    assert directory_errors(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    assert client.fetch(lost, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce(kept, tools.batch_of(1)) == (0, 1)
    client.close()
    for path in (tmp_path / "b", tmp_path / "b" / f"{lost}-0"):
        chattr("-i", path)
    node.restart()
    acknowledged_is_there(node, lost, written, tools)


def test_the_only_directory_read_only_at_the_start_refuses_it(
    tmp_path: Path, start: Start, read_only: Callable[[Path], None], tools: SimpleNamespace
) -> None:
    node = start(tmp_path / "data")
    node.stop()
    read_only(tmp_path / "data")
    with pytest.raises(StartFailed) as refused:
        node.start()
    assert "Operation not permitted" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("which", ["b", "a"])
def test_a_directory_that_cannot_be_used_is_offline_and_the_others_are_served(
    tmp_path: Path, start: Start, tools: SimpleNamespace, which: str
) -> None:
    node = two_directories(tmp_path, start, tmp_path / "b")
    client = tools.Client(node)
    assert client.create_topics(["x", "y"]) == [0, 0]
    assert [client.produce(topic, tools.batch_of(0)) for topic in "xy"] == [(0, 0)] * 2
    [lost] = [path.name[:-2] for path in (tmp_path / "b").glob("*-0")]
    client.close()
    node.stop()
    (tmp_path / which).rename(tmp_path / "elsewhere")
    (tmp_path / which).write_text("a file")
    if which == "a":  # the metadata's
        with pytest.raises(StartFailed, match="is to be a log directory and is a file"):
            node.start()
        return
    node.start()
    client = tools.Client(node)
    assert directory_errors(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    assert f"The log directory {tmp_path / 'b'} cannot be used and is offline: " in node.log()
    assert client.fetch(lost, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("x" if lost == "y" else "y", tools.batch_of(1)) == (0, 1)
    assert client.create_topics(["new"]) == [0]
    assert client.produce("new", tools.batch_of(0)) == (0, 0)
    client.close()
    node.stop()
    (tmp_path / "b").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "b")
    node.start()
    acknowledged_is_there(node, lost, 1, tools)


FAILING_FSYNC = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An fsync fails, for the files whose path has the text of the file named by FAILING_FSYNC in it. */
static int fails(int fd) {
    char wanted[256] = "", link[64], path[4096];
    const char *name = getenv("FAILING_FSYNC");
    FILE *file = name ? fopen(name, "r") : NULL;
    if (!file) return 0;
    if (!fgets(wanted, sizeof wanted, file)) wanted[0] = 0;
    fclose(file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0 || !wanted[0]) return 0;
    path[size] = 0;
    return strstr(path, wanted) != NULL;
}

int fsync(int fd) {
    if (fails(fd)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd) {
    if (fails(fd)) { errno = EIO; return -1; }
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


@pytest.fixture
def fail_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Nodes that are started from now on fail to fsync what has a text in its path, once it is given."""
    source, library, switch = tmp_path / "fsync.c", tmp_path / "fsync.so", tmp_path / "switch"
    source.write_text(FAILING_FSYNC)
    try:
        done = subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], capture_output=True, text=True, timeout=60
        )
    except OSError as error:
        pytest.skip(f"there is no C compiler here: {error}")
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("FAILING_FSYNC", str(switch))

    def fail(text: str) -> None:
        if text:
            switch.write_text(text)
        else:
            switch.unlink(missing_ok=True)

    return fail


def test_an_fsync_that_fails_takes_its_directory_offline(
    tmp_path: Path, start: Start, fail_fsync: Callable[[str], None], tools: SimpleNamespace
) -> None:
    node = two_directories(tmp_path, start, tmp_path / "b")
    client = tools.Client(node)
    assert client.create_topics(["x", "y"], flush_messages=1) == [0, 0]
    [lost] = [path.name[:-2] for path in (tmp_path / "b").glob("*-0")]
    kept = "x" if lost == "y" else "y"
    for number in range(5):
        assert client.produce(lost, tools.batch_of(number)) == (0, number)
    fail_fsync(f"/b/{lost}-0/")
    assert client.produce(lost, tools.batch_of(5)).error == ErrorCode.KAFKA_STORAGE_ERROR
    fail_fsync("")  # it is not believed again
    assert client.produce(lost, tools.batch_of(5)).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert directory_errors(client) == {"a": 0, "b": ErrorCode.KAFKA_STORAGE_ERROR}
    assert client.produce(kept, tools.batch_of(0)) == (0, 0)
    client.close()
    node.restart()
    acknowledged_is_there(node, lost, 5, tools)


@pytest.mark.parametrize("what", ["records", "metadata", "checkpoints"])
def test_an_fsync_that_fails_stops_a_node_that_has_no_other_directory(
    tmp_path: Path, start: Start, fail_fsync: Callable[[str], None], tools: SimpleNamespace, what: str
) -> None:
    node = start(tmp_path / "data")
    client = tools.Client(node)
    assert client.create_topics(["t"], flush_messages=1) == [0]
    for number in range(5):
        assert client.produce("t", tools.batch_of(number)) == (0, number)
    if what == "records":
        fail_fsync("/t-0/")
        assert client.produce("t", tools.batch_of(5)).error == ErrorCode.KAFKA_STORAGE_ERROR
    elif what == "metadata":
        fail_fsync("/__cluster_metadata-0/")
        assert client.create_topics(["new"]) == [ErrorCode.NOT_CONTROLLER]
    else:
        fail_fsync("-checkpoint")
    client.close()
    assert "Input/output error" in ended(node, tools)
    fail_fsync("")
    node.start()
    acknowledged_is_there(node, "t", 5, tools)
