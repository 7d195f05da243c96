"""Apache Kafka's own `kafka-metadata-quorum` on a quorum of ours: describe, add and remove controllers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import reference
from tests.support.growing_quorum import HOST, Quorum


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    reason = reference.available()
    if reason is not None:
        pytest.skip(reason)
    quorum = Quorum(tmp_path)
    yield quorum
    quorum.close()


@pytest.mark.timeout(240)
def test_kafkas_tool_changes_and_describes_our_quorum(quorum: Quorum) -> None:
    quorum.format(1, "--standalone")
    quorum.start(1)
    quorum.format(2, "--no-initial-controllers")
    quorum.start(2)

    def tool(*arguments: str, config: int | None = None) -> str:
        more = [] if config is None else ["--command-config", str(quorum.config_file(config))]
        address = ("--bootstrap-server", f"{HOST}:{quorum.port(1)}")
        done = reference.run_tool("kafka-metadata-quorum", *address, *more, *arguments, timeout_s=90)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert f"Added controller 2 with directory id {quorum.directory_id(2)}" in tool("add-controller", config=2)
    quorum.wait_for_voters(1, 2)
    rows = [line.split() for line in tool("describe", "--replication").splitlines()]
    assert [(row[0], row[-1]) for row in rows[1:]] == [("1", "Leader"), ("2", "Follower")]
    removed = ("--controller-id", "2", "--controller-directory-id", quorum.directory_id(2))
    assert "Removed  KRaft controller 2" in tool("remove-controller", *removed)
    quorum.wait_for_voters(1)
