"""A topic grows under a topology with state: it stops with a sentence, its state is moved, and it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import wait_until

pytest.importorskip("pyspark")

from barnabas.cli.main import main
from barnabas.pipelines.running import status as statuses
from barnabas.pipelines.running.place import Place
from barnabas.pipelines.running.status import Status
from barnabas.pipelines.streams.checkpoint import remember
from barnabas.pipelines.streams.checks import fingerprint
from barnabas.pipelines.streams.placement import write_placement
from barnabas.pipelines.streams.rescaling import partition_of, rescale
from barnabas.pipelines.streams.state.storage import LocalDirectory
from barnabas.streams import LONG, STRING, CheckpointError, Topology, open_store

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 240.0
KEYS = [f"key-{number}" for number in range(20)]


def test_counts_go_on_behind_a_topic_that_grew(
    spark: Any, stage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, counts = stage.topic(partitions=2), stage.topic(partitions=1)
    checkpoint = tmp_path / "counting"

    def started(**more: Any) -> Any:
        topology = Topology("counting", processing_guarantee="exactly_once_v2")
        topology.stream(lines, value=STRING).group_by_key().count(store="counts").to(counts, value=LONG)
        return topology.start(spark, bootstrap_servers=stage.servers, checkpoint=checkpoint, **more)

    def write(partitions: int, keys: list[str]) -> None:
        for key in keys:
            stage.write(lines, ["x"], partition_of(key.encode(), partitions), keys=[key])

    def rescaled() -> tuple[int, str]:
        words = ["pipeline", "rescale", str(checkpoint), "--partitions", "5", "--bootstrap-server", stage.servers]
        code = main(words)
        said = capsys.readouterr()
        return code, said.out + said.err

    def counted() -> dict[str, int]:
        return dict(open_store(checkpoint, "counts").all())

    write(2, KEYS)
    run = started()
    wait_until(lambda: checkpoint.is_dir() and len(counted()) == len(KEYS), "counts", LIMIT_S)
    assert rescaled() == (1, f"the topology of {checkpoint} is running: stop it first.\n")
    stage.add_partitions(lines, 5)
    with pytest.raises(
        Exception, match=r"had 2 partitions and has 5: .* `barnabas pipeline rescale .* --partitions 5`"
    ):
        run.await_termination(LIMIT_S)
    with pytest.raises(CheckpointError, match="had 2 partitions and has 5"):
        started()
    moved = [key for key in KEYS if partition_of(key.encode(), 2) != partition_of(key.encode(), 5)]
    code, said = rescaled()
    assert (code, said.partition(" of them")[0]) == (0, f"40 rows of state are placed anew, {2 * len(moved)}"), (
        said
    )  # counts and times
    write(5, KEYS)
    run = started(trigger={"availableNow": True})
    assert run.await_termination(LIMIT_S)
    assert counted() == dict.fromkeys(KEYS, 2)
    assert rescaled() == (1, f"topic {lines} has 5 partitions already, and so has the state.\n")


def test_a_pipeline_that_failed_at_its_start_is_rescaled_by_its_name(
    stage: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last run told of no query: it was refused because the topic had grown."""
    lines = stage.topic(partitions=2)
    topology = Topology()
    topology.stream(lines, value=STRING).group_by_key().count(store="counts")
    place = Place(tmp_path, "shop")

    def rescaled(*more: str) -> tuple[int, str]:
        words = ["pipeline", "rescale", "shop", "--state-dir", str(tmp_path), "--partitions", "3", *more]
        code = main([*words, "--bootstrap-server", stage.servers])
        said = capsys.readouterr()
        return code, said.out + said.err

    place.directory.mkdir()
    statuses.write(place, Status(name="shop", state="failed", bootstrap_servers=stage.servers))
    assert rescaled() == (1, "Pipeline shop has no such topology.\n")
    for name in ("counting", "other"):
        checkpoint = LocalDirectory(place.checkpoints / name, synced=False)
        remember(checkpoint, fingerprint(topology.graph, {lines: 2}))
        write_placement(topology.graph, checkpoint)
    stage.add_partitions(lines, 3)
    told = "Pipeline shop has several topologies: choose one by --query: counting, other.\n"
    assert rescaled() == (1, told)
    assert rescaled("--query", "other") == (
        0,
        f"0 rows of state are placed anew, 0 of them elsewhere: {lines} 2 -> 3.\n",
    )


def test_records_that_wait_where_their_keys_were_are_told(stage: Any, tmp_path: Path) -> None:
    lines = stage.topic(partitions=2)
    topology = Topology()
    topology.stream(lines, value=STRING).group_by_key().count(store="counts")
    checkpoint = LocalDirectory(tmp_path, synced=False)
    remember(checkpoint, fingerprint(topology.graph, {lines: 2}))
    write_placement(topology.graph, checkpoint)
    checkpoint.write("offsets/0", b"v1\n{}\n" + json.dumps({lines: {"0": 0, "1": 0}}).encode())
    checkpoint.write("commits/0", b"v1\n{}")
    properties = {"bootstrap.servers": stage.servers}
    with pytest.raises(CheckpointError, match=rf"topic {lines} has 2 partitions, not 3; `barnabas topics --alter"):
        rescale(checkpoint, 3, properties)
    moves = [key for key in KEYS if partition_of(key.encode(), 2) != partition_of(key.encode(), 3)]
    for key in KEYS:
        stage.write(lines, ["x"], partition_of(key.encode(), 2), keys=[key])
    stage.add_partitions(lines, 3)
    with pytest.raises(CheckpointError, match=rf"{len(moves)} records of topic {lines} that are not processed yet lie"):
        rescale(checkpoint, 3, properties)
    ends = {str(one): sum(partition_of(key.encode(), 2) == one for key in KEYS) for one in range(2)}
    checkpoint.write("offsets/0", b"v1\n{}\n" + json.dumps({lines: ends}).encode())
    assert rescale(checkpoint, 3, properties).after == {lines: 3}
