"""Kafka's own tool reads what our coordinator has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.core.coordinator.partitioning import partition_for
from barnabas.testing import Node
from tests.support import reference

from .group_stage import Stage


class Alone:
    """A stage with us on it only."""

    def __init__(self, node: Node) -> None:
        from tests.support.reference_exchange import Side

        self.kafka = Side("Barnabas", node)
        self.sides = [self.kafka]

    def note(self, text: str) -> None:
        pass


@pytest.mark.skipif(bool(reference.available()), reason="the reference is not available")
def test_the_dump_tool_decodes_groups_and_offsets(tmp_path: Path) -> None:
    with Node(data_dir=tmp_path) as node:
        node.create_topic("t")
        both: Any = Alone(node)
        with Stage(both, "a-group") as stage:
            stage.settle("anna", instance="one", topics=("t",))
            stage.same("anna", stage.commit("t", 42, "anna", 1, metadata="so far"), 9)
            stage.same("anna", stage.leave("anna", instance="one"), 5)
        both.kafka.close()
    index = partition_for("a-group", 50)
    log = tmp_path / f"__consumer_offsets-{index}" / "00000000000000000000.log"
    dumped = reference.run_tool("kafka-dump-log", "--offsets-decoder", "--files", str(log)).stdout
    lines = [line for line in dumped.splitlines() if "key:" in line]
    assert len(lines) == 4, dumped
    created, settled, committed, empty = lines
    assert '"generation":0' in created
    assert '"members":[]' in created
    for said in ('"generation":1', '"protocol":"range"', '"groupInstanceId":"one"', '"protocolType":"consumer"'):
        assert said in settled
    for said in ('"group":"a-group"', '"topic":"t"', '"offset":42', '"metadata":"so far"'):
        assert said in committed
    assert '"generation":2' in empty
    assert '"members":[]' in empty
