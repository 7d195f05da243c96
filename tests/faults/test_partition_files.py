"""Harm to the files of partitions: each row of the tables has a topic of its own, and one start meets them all.

What must be so afterwards: every batch before the first bad one is there, and everything that lay below the recovery
point; a bad batch is never given out; what was cut off is said, with offsets; the partition can be written to.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import Record, build_batch, iterate_batches
from barnabas.wire.errors import ErrorCode

LAST = 30
BATCHES = 40


def log(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}.log"


def beside(directory: Path, base: int, suffix: str) -> Path:
    return directory / f"{base:020d}.{suffix}"


def position(directory: Path, offset: int) -> int:
    content = log(directory, offset // 10 * 10).read_bytes()
    return next(at for at, header in iterate_batches(content) if header.base_offset == offset)


def flip(path: Path, at: int, bit: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def flip_in(offset: int, at: int, bit: int = 0x10) -> Callable[[Path], None]:
    """A bit of the batch with this offset."""
    return lambda directory: flip(log(directory, offset // 10 * 10), position(directory, offset) + at, bit)


def cut_in(offset: int, at: int) -> Callable[[Path], None]:
    def cut(directory: Path) -> None:
        path = log(directory, offset // 10 * 10)
        path.write_bytes(path.read_bytes()[: position(directory, offset) + at])

    return cut


def append(base: int, content: bytes) -> Callable[[Path], None]:
    return lambda directory: log(directory, base).write_bytes(log(directory, base).read_bytes() + content)


def remove(*names: str) -> Callable[[Path], None]:
    """Files by patterns; each must match one at least."""

    def take_away(directory: Path) -> None:
        for name in names:
            found = list(directory.glob(name))
            assert found, name
            for path in found:
                path.unlink()

    return take_away


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def put(directory: Path) -> None:
        found = list(directory.glob(name)) or [directory / name]
        for path in found:
            path.write_bytes(content)

    return put


def both(*harms: Callable[[Path], None]) -> Callable[[Path], None]:
    def harm(directory: Path) -> None:
        for each in harms:
            each(directory)

    return harm


def scramble(base: int, suffix: str) -> Callable[[Path], None]:
    def harm(directory: Path) -> None:
        path = beside(directory, base, suffix)
        content = path.read_bytes()
        assert content
        path.write_bytes(bytes(byte ^ 0x11 for byte in content))

    return harm


def recovery_point(offset: int) -> Callable[[Path], None]:
    """The last checkpoint came later than the others'."""

    def move(directory: Path) -> None:
        path = directory.parent / "recovery-point-offset-checkpoint"
        topic = directory.name.removesuffix("-0")
        path.write_text(path.read_text().replace(f"{topic} 0 {LAST}\n", f"{topic} 0 {offset}\n"))

    return move


def segment_files(directory: Path, base: int) -> list[Path]:
    return [beside(directory, base, suffix) for suffix in ("log", "index", "timeindex")]


def half_swap(directory: Path) -> None:
    """Compaction has written the first segment anew, and only the log is renamed."""
    for path in segment_files(directory, 0):
        shutil.copy(path, f"{path}{'.swap' if path.suffix == '.log' else '.cleaned'}")


def whole_swap(directory: Path) -> None:
    """All of the new segment's files have their swap names, and the old ones are being removed."""
    for path in segment_files(directory, 0):
        path.rename(f"{path}.swap")
    for path in segment_files(directory, 10):
        shutil.copy(path, f"{path}.cleaned")


def half_deletion(directory: Path) -> None:
    """Retention has renamed the first segment's log, and nothing else of it."""
    log(directory, 0).rename(f"{log(directory, 0)}.deleted")


def half_roll(directory: Path) -> None:
    log(directory, BATCHES).touch()
    beside(directory, LAST, "index").unlink(missing_ok=True)
    beside(directory, BATCHES, "snapshot").write_bytes(b"\0\1")


def roll_after_lost_end(directory: Path) -> None:
    """The disk has the new segment and has lost the end of the one before it."""
    cut_in(38, 0)(directory)
    batch = bytearray(build_batch([Record(0, 1, b"key", b"after the hole")]))
    batch[:8] = BATCHES.to_bytes(8, "big")
    log(directory, BATCHES).write_bytes(batch)


@dataclass(frozen=True)
class Row:
    name: str
    harm: Callable[[Path], None]
    end: int = BATCHES
    start: int = 0
    # Offsets that nobody is given, and where reading goes on.
    bad: int | None = None
    resumes: int | None = None
    gone: range = range(0)
    # What the node says at its start, and what it says when it is read.
    said: str = ""

    def topic(self, rows: list[Row]) -> str:
        return f"t{rows.index(self):02d}"


CUT = r"{topic}-0: removed the last \d+ bytes, the log now ends at offset {end}: .*"
LEFT = r"{topic}-0: left damaged bytes below the recovery point in place: .*{base:020d}\.log is damaged at position \d+"
LEFT_BETWEEN = LEFT.replace("at position", "from position") + r" to \d+"
LOOKED_THROUGH = r"{topic}-0: the last segment is damaged or lacks an index; scanning it"
LOST = r"{topic}-0 ends at offset {end}, but it was flushed up to offset 40"
GONE = "{topic}-0: the file of the segment at offset 10 is gone, only its index is there: its records are lost"
REBUILT = r"{topic}-0: the segment at offset 0 lacks an index; rebuilding it"

KILLED = [
    Row("nothing", lambda directory: None),
    Row("torn tail in a record", cut_in(39, 100), end=39, said=CUT + "no whole record batch follows"),
    Row("torn tail in a header", cut_in(39, 20), end=39, said=CUT + "no whole record batch follows"),
    Row("torn tail of zeros", append(LAST, bytes(4096)), said=CUT),
    Row("garbage after the end", append(LAST, b"garbage" * 100), said=CUT),
    Row("flip in a record", flip_in(35, 100), end=35, said=CUT + "Record is corrupt"),
    Row("flip in a length", flip_in(35, 9), end=35, said=CUT),
    Row("flip in a magic", flip_in(35, 16), end=35, said=CUT + "Invalid magic"),
    Row("flip in an offset", flip_in(35, 6), end=35, said=CUT + "comes after 34"),
    Row("flip below the recovery point", flip_in(25, 100), bad=25, resumes=26, said=LEFT),
    Row("flip of a length below it", flip_in(25, 9), bad=25, resumes=26, said=LEFT_BETWEEN),
    Row("flip below it in the last segment", both(recovery_point(35), flip_in(32, 100)), bad=32, resumes=33, said=LEFT),
    Row("flip behind it in the last segment", both(recovery_point(35), flip_in(36, 100)), end=36, said=CUT),
    Row("flip in an old segment", flip_in(5, 100), bad=5, resumes=6),
    Row("flip of a length in an old segment", flip_in(5, 9), bad=5, resumes=10),
    Row("flip of an offset in an old segment", flip_in(5, 6), bad=5, resumes=6),
    Row("old index missing", remove(f"{0:020d}.index"), said=REBUILT),
    Row("old time index missing", remove(f"{0:020d}.timeindex"), said=REBUILT),
    Row("all indexes missing", remove("*.index", "*.timeindex"), said=REBUILT),
    Row(
        "index missing before rot", both(remove(f"{0:020d}.index"), flip_in(15, 100)), bad=15, resumes=16, said=REBUILT
    ),
    Row("old index damaged", scramble(0, "index")),
    Row("old time index damaged", scramble(10, "timeindex")),
    Row("old index empty", write(f"{0:020d}.index", b"")),
    Row("old time index empty", write(f"{0:020d}.timeindex", b"")),
    Row("last index garbage", write(f"{LAST:020d}.index", b"\xff" * 77)),
    Row("snapshots missing", remove("*.snapshot")),
    Row("snapshots garbage", write("*.snapshot", b"garbage")),
    Row("snapshots empty", write("*.snapshot", b"")),
    Row("epochs missing", remove("leader-epoch-checkpoint")),
    Row("epochs garbage", write("leader-epoch-checkpoint", b"\xff\xfe")),
    Row("epochs empty", write("leader-epoch-checkpoint", b"")),
    Row("epochs half", write("leader-epoch-checkpoint", b"0\n5\n0 0\n")),
    Row("partition.metadata missing", remove("partition.metadata")),
    Row("partition.metadata garbage", write("partition.metadata", b"\xff" * 20)),
    Row("partition.metadata empty", write("partition.metadata", b"")),
    Row("last log empty", write(f"{LAST:020d}.log", b""), end=LAST),
    Row("old log gone", remove(f"{10:020d}.log"), gone=range(10, 20), said=GONE),
    Row("half a roll", half_roll),
    Row(
        "a roll after a lost end",
        roll_after_lost_end,
        end=38,
        said=CUT + "the segment at 40 does not follow on offset 38",
    ),
    Row("half a swap", half_swap),
    Row("a whole swap", whole_swap),
    Row("half a deletion", half_deletion, start=10),
    Row("leftovers", both(write(f"{7:020d}.log.deleted", b"x"), write("x.tmp", b"x"))),
    Row("stray transaction index", write(f"{LAST:020d}.txnindex", bytes(34))),
]

CLEAN = [
    Row("nothing", lambda directory: None),
    Row("torn tail", cut_in(39, 100), end=39, said=CUT + "no whole record batch follows"),
    Row("garbage after the end", append(LAST, b"garbage" * 100), said=CUT),
    Row("zeros after the end", append(LAST, bytes(4096)), said=CUT),
    Row("flip in the last segment", flip_in(35, 100), bad=35, resumes=36),
    Row("flip in an old segment", flip_in(5, 100), bad=5, resumes=6),
    Row("flip of a length in an old segment", flip_in(5, 9), bad=5, resumes=6),
    Row("old index missing", remove(f"{0:020d}.index"), said=REBUILT),
    Row("last index missing", remove(f"{LAST:020d}.index"), said=LOOKED_THROUGH),
    Row("last time index missing", remove(f"{LAST:020d}.timeindex"), said=LOOKED_THROUGH),
    Row(
        "last index missing and a length hit",
        both(remove(f"{LAST:020d}.index"), flip_in(35, 9)),
        bad=35,
        resumes=36,
        said=LEFT_BETWEEN,
    ),
    Row(
        "all indexes missing before rot",
        both(remove("*.index", "*.timeindex"), flip_in(15, 100)),
        bad=15,
        resumes=16,
        said=REBUILT,
    ),
    Row("last index damaged", scramble(LAST, "index"), said=LOOKED_THROUGH),
    Row(
        "last time index damaged",
        scramble(LAST, "timeindex"),
        said=r"{topic}-0/.* its offset and time index is damaged",
    ),
    Row("last index empty", write(f"{LAST:020d}.index", b"")),
    Row("old time index damaged", scramble(0, "timeindex")),
    Row("snapshots missing", remove("*.snapshot")),
    Row(
        "snapshots missing before rot",
        both(remove("*.snapshot"), flip_in(15, 100)),
        bad=15,
        resumes=16,
        said="{topic}-0: could not read the producer's batch at offset 15; its sequence number is not known",
    ),
    Row("last snapshot garbage", write(f"{BATCHES:020d}.snapshot", b"garbage")),
    Row("epochs missing", remove("leader-epoch-checkpoint")),
    Row("epochs garbage", write("leader-epoch-checkpoint", b"\xff\xfe")),
    Row("partition.metadata empty", write("partition.metadata", b"")),
    Row("last log empty", write(f"{LAST:020d}.log", b""), end=LAST, said=LOST),
    Row(
        "old log empty",
        write(f"{10:020d}.log", b""),
        gone=range(10, 20),
        said="{topic}-0: the segment at offset 10 is empty",
    ),
    Row("old log gone", remove(f"{10:020d}.log"), gone=range(10, 20), said=GONE),
    Row("half a roll", half_roll, said=r"{topic}-0: the segment at offset 30 lacks an index; rebuilding it"),
    Row("half a swap", half_swap),
    Row("a whole swap", whole_swap),
    Row("half a deletion", half_deletion, start=10),
]


class Harmed:
    """A node on a copy of a template in which every row has harmed its topic."""

    def __init__(self, template: Path, root: Path, rows: list[Row], tools: SimpleNamespace) -> None:
        shutil.copytree(template, root)
        for row in rows:
            row.harm(root / f"{row.topic(rows)}-0")
        self.node = Node(tools.config, data_dir=root).start()
        self.said = self.node.log()
        self.client = tools.Client(self.node)

    def close(self) -> None:
        self.client.close()
        self.node.close()


@pytest.fixture(scope="module")
def killed(many_topics: Any, tmp_path_factory: pytest.TempPathFactory, tools: SimpleNamespace) -> Iterator[Harmed]:
    harmed = Harmed(many_topics.killed, tmp_path_factory.mktemp("killed") / "data", KILLED, tools)
    yield harmed
    harmed.close()


@pytest.fixture(scope="module")
def clean(many_topics: Any, tmp_path_factory: pytest.TempPathFactory, tools: SimpleNamespace) -> Iterator[Harmed]:
    harmed = Harmed(many_topics.clean, tmp_path_factory.mktemp("clean") / "data", CLEAN, tools)
    yield harmed
    harmed.close()


@pytest.mark.parametrize("row", KILLED, ids=lambda row: row.name)
def test_after_a_kill(killed: Harmed, row: Row, tools: SimpleNamespace) -> None:
    check(killed, row, row.topic(KILLED), tools)


@pytest.mark.parametrize("row", CLEAN, ids=lambda row: row.name)
def test_after_a_clean_stop(clean: Harmed, row: Row, tools: SimpleNamespace) -> None:
    check(clean, row, row.topic(CLEAN), tools)


def check(harmed: Harmed, row: Row, topic: str, tools: SimpleNamespace) -> None:
    client = harmed.client
    wanted = {offset: tools.value_of(offset) for offset in range(row.start, row.end) if offset not in row.gone}
    assert (client.offset(topic, -2), client.offset(topic, -1)) == (row.start, row.end)
    found, error = client.read(topic, row.start)
    if row.bad is None:
        assert (found, error) == (wanted, 0)
    else:
        assert row.resumes is not None
        assert (found, error) == ({at: wanted[at] for at in range(row.bad)}, ErrorCode.CORRUPT_MESSAGE)
        assert client.fetch(topic, row.bad).error_code == ErrorCode.CORRUPT_MESSAGE
        assert client.read(topic, row.resumes) == ({at: wanted[at] for at in range(row.resumes, row.end)}, 0)
    base = (row.bad or 0) // 10 * 10
    pattern = row.said.format(topic=topic, end=row.end, base=base) if row.said else ""
    lines = [line for line in harmed.said.splitlines() if re.search(rf"\b{topic}-0\b", line)]
    if pattern:
        assert any(re.search(pattern, line) for line in lines), (pattern, lines)
    else:
        assert lines == []
    assert client.end_of_epoch(topic, 0) == row.end
    # It is written to as if nothing had been, and knows its producer.
    assert client.produce(topic, tools.batch_of(row.end - 1)) == (0, row.end - 1)
    assert client.produce(topic, tools.batch_of(row.end)) == (0, row.end)
    assert client.read(topic, row.end)[0] == {row.end: tools.value_of(row.end)}


def test_nothing_of_all_this_was_unexpected(killed: Harmed, clean: Harmed) -> None:
    for harmed in (killed, clean):
        assert harmed.node.running
        assert "Traceback" not in harmed.node.log(), harmed.node.log()[-5000:]
