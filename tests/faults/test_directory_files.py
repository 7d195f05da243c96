"""Harm to the files of a log directory: checkpoints, identity, the mark of a clean stop, what was half formatted."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.testing import Node

CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
GARBAGE = b"\xff\xfe\x00garbage"
SHOWN = ("t00", "t01")


def everything_is_there(node: Node, tools: SimpleNamespace) -> None:
    client = tools.Client(node)
    wanted = {offset: tools.value_of(offset) for offset in range(tools.batches)}
    for topic in SHOWN:
        assert client.read(topic) == (wanted, 0)
        assert client.produce(topic, tools.batch_of(tools.batches)) == (0, tools.batches)
    client.close()


def missing(path: Path) -> None:
    path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(GARBAGE)


def half(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b"0\n3\nt00 0 40\n"
    path.write_bytes(content[: len(content) * 2 // 3])


def future_version(path: Path) -> None:
    path.write_bytes(b"7\n0\n")


@pytest.mark.parametrize(
    ("state", "harm"),
    [
        *(("killed", harm) for harm in (missing, empty, garbage, half, future_version)),
        *(("clean", harm) for harm in (missing, garbage)),
    ],
)
def test_checkpoints_cost_a_longer_start_and_nothing_else(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, state: str, harm: Any
) -> None:
    shutil.copytree(getattr(templates, state), tmp_path / "data")
    for name in CHECKPOINTS:
        harm(tmp_path / "data" / name)
    node = start(tmp_path / "data")
    everything_is_there(node, tools)
    if harm in (garbage, half, future_version):
        assert node.log().count("ignoring a damaged checkpoint: ") >= 3


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_each_checkpoint_alone(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, name: str
) -> None:
    shutil.copytree(templates.killed, tmp_path / "data")
    garbage(tmp_path / "data" / name)
    node = start(tmp_path / "data")
    everything_is_there(node, tools)
    assert f"ignoring a damaged checkpoint: {tmp_path / 'data' / name} is not text" in node.log()


@pytest.mark.parametrize("harm", [empty, garbage])
def test_a_mark_of_a_clean_stop_needs_no_content(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, harm: Any
) -> None:
    shutil.copytree(templates.clean, tmp_path / "data")
    harm(tmp_path / "data" / ".kafka_cleanshutdown")
    everything_is_there(start(tmp_path / "data"), tools)


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (missing, "holds the metadata of a cluster but no meta.properties, and is left as it is"),
        (empty, "meta.properties has version None, only version 1 is supported"),
        (garbage, "meta.properties has version None, only version 1 is supported"),
    ],
)
def test_without_its_identity_a_directory_is_refused_untouched(
    templates: Any, tmp_path: Path, tools: SimpleNamespace, harm: Any, sentence: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(templates.killed, data)
    harm(data / "meta.properties")
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}
    assert sentence in tools.refusal(data)
    after = {path: path.read_bytes() for path in data.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before


def test_a_link_to_a_partition_s_directory_is_followed(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    data = tmp_path / "data"
    shutil.copytree(templates.clean, data)
    shutil.move(data / "t00-0", tmp_path / "elsewhere")
    (data / "t00-0").symlink_to(tmp_path / "elsewhere")
    node = start(data, log_segment_delete_delay_ms=0)
    everything_is_there(node, tools)
    # Deleting the topic removes its files and the link, and nothing else of where the link points to.
    client = tools.Client(node)
    assert client.delete_topic("t00") == 0
    tools.wait_until(lambda: not any((tmp_path / "elsewhere").iterdir()))
    tools.wait_until(lambda: not list(data.glob("t00-0*")))
    client.close()


def test_a_partition_s_directory_that_is_gone_is_reported(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    data = tmp_path / "data"
    shutil.copytree(templates.clean, data)
    shutil.rmtree(data / "t01-0")
    node = start(data)
    lines = [line for line in node.log().splitlines() if f"{data}/t01-0 is gone" in line]
    assert len(lines) == 1
    assert "ERROR" in lines[0]
    assert "up to offset 40" in lines[0]
    client = tools.Client(node)
    assert client.read("t01") == ({}, 0)
    assert len(client.read("t00")[0]) == tools.batches
    client.close()


FORMAT_STEPS = (
    "bootstrap.checkpoint.tmp",
    "bootstrap.checkpoint",
    "__cluster_metadata-0",
    "first snapshot",
    "meta.tmp",
)


@pytest.mark.parametrize("steps", range(1, len(FORMAT_STEPS) + 1), ids=lambda steps: f"up to {FORMAT_STEPS[steps - 1]}")
def test_a_format_that_was_cut_short_is_begun_again(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, steps: int
) -> None:
    """The files of a format come one after the other; `meta.properties` would be the last."""
    data, made = tmp_path / "data", templates.killed
    data.mkdir()
    snapshot = "00000000000000000000-0000000000.checkpoint"
    for step in FORMAT_STEPS[:steps]:
        if step == "__cluster_metadata-0":
            (data / step).mkdir()
        elif step == "first snapshot":
            shutil.copy(made / "__cluster_metadata-0" / snapshot, data / "__cluster_metadata-0" / snapshot)
        elif step == "meta.tmp":
            (data / "meta.properties.tmp").write_bytes((made / "meta.properties").read_bytes()[:20])
        else:
            (data / step).write_bytes((made / "bootstrap.checkpoint").read_bytes())
    node = start(data)
    client = tools.Client(node)
    assert client.create_topics(["new"]) == [0]
    assert client.produce("new", tools.batch_of(0)) == (0, 0)
    client.close()


def test_directories_that_were_being_deleted_go_on_being_deleted(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    data = tmp_path / "data"
    shutil.copytree(templates.killed, data)
    doomed = data / f"t05-0.{'a' * 32}-delete"
    shutil.copytree(data / "t01-0", doomed)
    (doomed / "00000000000000000000.log").unlink()
    node = start(data)
    tools.wait_until(lambda: not doomed.exists())
    everything_is_there(node, tools)


def test_a_partition_of_another_topic_id_is_set_aside(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    """Its records are of a topic that was deleted: they are kept for the operator, and not given out."""
    data = tmp_path / "data"
    shutil.copytree(templates.killed, data)
    other = (data / "t00-0" / "partition.metadata").read_bytes()
    (data / "t01-0" / "partition.metadata").write_bytes(other)
    node = start(data)
    client = tools.Client(node)
    assert client.read("t01") == ({}, 0)
    client.close()
    [stray] = data.glob("t01-0.*-stray")
    assert (stray / f"{0:020d}.log").exists()
    assert f"{data / 't01-0'} belongs to no partition of this node; it is renamed to *-stray" in node.log()


@pytest.mark.parametrize(
    ("state", "harm"),
    [
        *(("killed", harm) for harm in (missing, empty, garbage, half)),
        *(("clean", harm) for harm in (missing, empty, garbage, half)),
    ],
)
def test_aborted_records_stay_aborted_without_their_index(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace, harm: Any, state: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(getattr(templates, state), data)
    indexes = sorted((data / "aborted-0").glob("*.txnindex"))
    assert len(indexes) >= 2
    for path in indexes:
        harm(path)
    node = start(data)
    client = tools.Client(node)
    aborted = set()
    offset, end = 0, client.offset("aborted", -1)
    while offset < end:
        answer = client.fetch("aborted", offset, read_committed=True)
        assert answer.error_code == 0
        aborted |= {each.first_offset for each in answer.aborted_transactions}
        offset = tools.last_offset(answer.records) + 1
    client.close()
    assert aborted == {3, 9, 15}


def test_a_coordinator_whose_records_are_damaged_stays_away_and_everybody_else_is_served(
    templates: Any, tmp_path: Path, start: Callable[..., Node], tools: SimpleNamespace
) -> None:
    data = tmp_path / "data"
    shutil.copytree(templates.clean, data)
    tools.flip(data / "__transaction_state-0" / f"{0:020d}.log", 70)
    node = start(data)
    tools.wait_until(
        lambda: "__transaction_state-0 cannot be loaded, so its groups or transactions are not served: " in node.log()
    )
    everything_is_there(node, tools)
