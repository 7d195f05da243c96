"""quorum-state in both of Kafka's versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.core.raft import QuorumState
from barnabas.node.raft.errors import StartError
from barnabas.node.raft.quorum_state import read_quorum_state, write_quorum_state

# As Apache Kafka 4.3.1 wrote them.
DYNAMIC = '{"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
STATIC = (
    '{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1}],"data_version":0}'
)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (DYNAMIC, QuorumState(leader_id=1, epoch=3)),
        (STATIC, QuorumState(leader_id=1, epoch=3, static_voters=(1,), data_version=0)),
    ],
)
def test_it_is_read_and_written_as_kafka_writes_it(tmp_path: Path, text: str, state: QuorumState) -> None:
    write_quorum_state(tmp_path, state)
    assert (tmp_path / "quorum-state").read_text() == text
    assert read_quorum_state(tmp_path) == state


def test_without_the_file_nobody_has_voted(tmp_path: Path) -> None:
    assert read_quorum_state(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"data_version":1}', DYNAMIC.replace("AAAAAAAAAAAAAAAAAAAAAA", "?")])
def test_a_file_that_is_none_refuses_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(StartError, match="quorum-state cannot be read"):
        read_quorum_state(tmp_path)
