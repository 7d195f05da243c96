"""Harm to the files of the metadata: the node starts with everything that was decided, or says why it does not."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.batch import iterate_batches

FIRST_LOG = "00000000000000000000.log"
FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
GARBAGE = b"\xff\xfe\x00garbage" * 9


def log_of(metadata: Path) -> Path:
    return metadata / FIRST_LOG


def batches(metadata: Path) -> list[tuple[int, int]]:
    """Position and base offset of each."""
    return [(position, header.base_offset) for position, header in iterate_batches(log_of(metadata).read_bytes())]


def flip(path: Path, at: int, bit: int = 0x10) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= bit
    path.write_bytes(content)


def flip_batch(number: int, at: int, bit: int = 0x10) -> Callable[[Path], None]:
    return lambda metadata: flip(log_of(metadata), batches(metadata)[number][0] + at, bit)


def append(content: bytes) -> Callable[[Path], None]:
    return lambda metadata: log_of(metadata).write_bytes(log_of(metadata).read_bytes() + content)


def cut(metadata: Path) -> None:
    path = log_of(metadata)
    path.write_bytes(path.read_bytes()[: batches(metadata)[-1][0] + 30])


def put(name: str, content: bytes | None) -> Callable[[Path], None]:
    """`..` is the log directory; None removes the file."""

    def change(metadata: Path) -> None:
        path = metadata / name
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    return change


def remove_indexes(metadata: Path) -> None:
    for path in (*metadata.glob("*.index"), *metadata.glob("*.timeindex"), *metadata.glob("*.snapshot")):
        path.unlink()


def half_a_snapshot(metadata: Path) -> None:
    content = (metadata / FIRST_SNAPSHOT).read_bytes()
    (metadata / f"{7:020d}-{1:010d}.checkpoint.part").write_bytes(content[:-9])


TORN = r"removing a torn tail of \d+ bytes behind offset \d+, which was never acknowledged"
HARMLESS = {
    "a torn tail": (cut, TORN),
    "garbage after the end": (append(GARBAGE), TORN),
    "zeros after the end": (append(bytes(4096)), TORN),
    "a flip in the last batch": (flip_batch(-1, 70), TORN),
    "indexes missing": (remove_indexes, ""),
    "an index damaged": (put("00000000000000000000.index", GARBAGE), ""),
    "quorum-state missing": (put("quorum-state", None), ""),
    "bootstrap.checkpoint missing": (put("../bootstrap.checkpoint", None), ""),
    "the first snapshot missing": (put(FIRST_SNAPSHOT, None), ""),
    "the first snapshot empty": (put(FIRST_SNAPSHOT, b""), "A metadata snapshot is skipped: .* is not whole"),
    "the first snapshot garbage": (put(FIRST_SNAPSHOT, GARBAGE), "A metadata snapshot is skipped: .* is not whole"),
    "half a snapshot": (half_a_snapshot, ""),
    "partition.metadata missing": (put("partition.metadata", None), ""),
    "partition.metadata empty": (put("partition.metadata", b""), ""),
    "leader epochs garbage": (put("leader-epoch-checkpoint", GARBAGE), ""),
}

DAMAGED = r"is damaged at position \d+, where offset \d+ should be, and at position \d+ it goes on with offset \d+"
REFUSED_AFTER_KILL = {
    "a flip in a record": (flip_batch(-3, 70), DAMAGED),
    "a flip in the first batch": (flip_batch(0, 70), DAMAGED),
    "a flip in a length": (flip_batch(-3, 10), DAMAGED),
    "a flip in a magic": (flip_batch(-3, 16), DAMAGED),
    "a flip in an offset": (flip_batch(-3, 5), r"offset \d+ is missing: the next batch begins at \d+"),
    "quorum-state empty": (put("quorum-state", b""), "quorum-state cannot be read"),
    "quorum-state garbage": (put("quorum-state", GARBAGE), "quorum-state cannot be read"),
    "bootstrap.checkpoint empty": (put("../bootstrap.checkpoint", b""), r"bootstrap\.checkpoint is not whole"),
    "bootstrap.checkpoint garbage": (put("../bootstrap.checkpoint", GARBAGE), r"bootstrap\.checkpoint is not whole"),
    "the log missing": (put(FIRST_LOG, None), "the log is empty, but there are partitions such as"),
    "the log empty": (put(FIRST_LOG, b""), "the log is empty, but there are partitions such as"),
}
CLEANLY = "although the node stopped cleanly"
REFUSED_AFTER_STOP = {
    "a torn tail": (cut, CLEANLY),
    "garbage after the end": (append(GARBAGE), CLEANLY),
    "a flip in the last batch": (flip_batch(-1, 70), CLEANLY),
    "a flip in a record": (flip_batch(-3, 70), CLEANLY),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_after_a_kill_the_node_starts_with_everything_it_has_answered_for(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, name: str
) -> None:
    harm, said = HARMLESS[name]
    shutil.copytree(templates.killed, tmp_path / "data")
    harm(tmp_path / "data" / "__cluster_metadata-0")
    node = start(tmp_path / "data")
    client = tools.Client(node)
    assert client.read("t00")[0][39] == tools.value_of(39)
    assert client.create_topics(["new", "t01"]) == [0, 36]
    client.close()
    assert re.search(said, node.log())
    assert "torn tail" in node.log() or said != TORN
    if said == TORN:
        node.kill()
        node.start()
        client = tools.Client(node)
        assert client.produce("new", tools.batch_of(0)) == (0, 0)
        client.close()


def refused(template: Path, root: Path, harm: Callable[[Path], None], said: str, tools: SimpleNamespace) -> None:
    shutil.copytree(template, root)
    harm(root / "__cluster_metadata-0")
    before = contents(root)
    sentence = tools.refusal(root)
    assert re.search(said, sentence), sentence
    assert contents(root) == before


def test_the_sentence_tells_how_to_go_on_and_it_works(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    shutil.copytree(templates.killed, tmp_path / "data")
    flip_batch(-1, 70)(tmp_path / "data" / "__cluster_metadata-0")
    (tmp_path / "data" / ".kafka_cleanshutdown").write_bytes(b"{}")
    sentence = tools.refusal(tmp_path / "data")
    command = re.search(r"truncate -s \d+ \S+$", sentence)
    assert command, sentence
    subprocess.run(command[0].split(), check=True)
    client = tools.Client(start(tmp_path / "data"))
    assert client.read("t00")[0][39] == tools.value_of(39)
    client.close()


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", REFUSED_AFTER_KILL)
def test_after_a_kill_lost_decisions_refuse_the_start_untouched(
    templates: Any, tmp_path: Path, tools: SimpleNamespace, name: str
) -> None:
    refused(templates.killed, tmp_path / "data", *REFUSED_AFTER_KILL[name], tools)


@pytest.mark.parametrize("name", REFUSED_AFTER_STOP)
def test_after_a_clean_stop_any_damage_refuses_the_start_untouched(
    templates: Any, tmp_path: Path, tools: SimpleNamespace, name: str
) -> None:
    refused(templates.clean, tmp_path / "data", *REFUSED_AFTER_STOP[name], tools)
