"""Quorums whose voters are in the log: a node grows to three and back, and three begin together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.testing.reserved_port import ReservedPort
from barnabas.wire.uuids import Uuid
from tests.support.growing_quorum import HOST, Quorum
from tests.support.replication.watching import Acknowledged, read_all
from tests.support.waiting import wait_until


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    quorum = Quorum(tmp_path)
    yield quorum
    quorum.close()


def test_a_node_grows_to_three_and_shrinks_back_while_a_client_writes(quorum: Quorum) -> None:
    quorum.format(1, "--standalone")
    quorum.start(1)
    quorum.create("alone", by=1)
    with Acknowledged(quorum, "alone", partitions=1) as writer:
        grow_and_shrink(quorum, writer)
    assert writer.failed == []
    assert read_all(quorum, "alone", partitions=1) == writer.acknowledged


def grow_and_shrink(quorum: Quorum, writer: Acknowledged) -> None:
    quorum.format(2, "--no-initial-controllers")
    quorum.start(2)
    quorum.change_voters("add-controller", config=2)
    quorum.wait_for_voters(1, 2)
    assert "already part of the set of voters" in quorum.change_voters("add-controller", config=2, fails=True)
    quorum.start(3, controller_quorum_auto_join_enable="true")  # neither formatted nor added by anybody
    quorum.wait_for_voters(1, 2, 3)
    quorum.create("three", by=3)
    writer.goes_on()

    found = quorum.describe()
    assert found is not None
    quorum.nodes[found.leader_id].kill()
    left = next(node_id for node_id, node in quorum.nodes.items() if node.running)
    quorum.create("one-is-killed", by=left)
    quorum.nodes[found.leader_id].start()

    def remove(node_id: int, *, fails: bool = False) -> str:
        directory_id = quorum.directory_id(node_id)
        key = ("--controller-id", str(node_id), "--controller-directory-id", directory_id)
        return quorum.change_voters("remove-controller", *key, fails=fails)

    remove(2)
    quorum.wait_for_voters(1, 3)
    quorum.nodes[3].stop()  # else it would join again
    quorum.nodes.pop(3).close()
    quorum.start(3)
    remove(3)
    quorum.wait_for_voters(1)
    assert "Cannot remove voter 1" in remove(1, fails=True)
    quorum.create("alone-again", by=2)
    writer.goes_on()


def test_three_controllers_begin_together(quorum: Quorum) -> None:
    directories = {node_id: Uuid.random() for node_id in (1, 2, 3)}
    voters = ",".join(f"{each}@{HOST}:{quorum.port(each, 'quorum')}:{directories[each]}" for each in directories)
    for node_id in directories:
        quorum.format(node_id, "--initial-controllers", voters)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(quorum.start, directories))
    quorum.wait_for_voters(1, 2, 3)
    found = quorum.describe()
    assert found is not None
    assert {each.replica_id: each.replica_directory_id for each in found.current_voters} == directories
    quorum.create("orders", by=2)


def test_a_removed_voter_that_comes_back_follows_and_one_that_has_moved_tells_where_it_is(quorum: Quorum) -> None:
    directories = {node_id: Uuid.random() for node_id in (1, 2, 3)}
    voters = ",".join(f"{each}@{HOST}:{quorum.port(each, 'quorum')}:{directories[each]}" for each in directories)
    for node_id in directories:
        quorum.format(node_id, "--initial-controllers", voters)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(quorum.start, directories))
    quorum.wait_for_voters(1, 2, 3)

    quorum.nodes[3].kill()
    key = ("--controller-id", "3", "--controller-directory-id", str(directories[3]))
    quorum.change_voters("remove-controller", *key)
    quorum.wait_for_voters(1, 2)
    quorum.nodes[3].start()  # its log ends before the removal: it takes itself for a voter
    quorum.create("by-who-was-removed", by=3)
    quorum.wait_for_voters(1, 2)
    found = quorum.describe()
    assert found is not None
    assert 3 in [each.replica_id for each in found.observers]

    quorum.change_voters("add-controller", config=3)
    quorum.wait_for_voters(1, 2, 3)
    quorum.nodes.pop(3).close()
    quorum.reserved[3, "quorum"].release()
    quorum.reserved[3, "quorum"] = ReservedPort()
    quorum.start(3)
    moved = f"CONTROLLER://{HOST}:{quorum.port(3, 'quorum')}"
    wait_until(lambda: moved in quorum.change_voters("describe", "--status"), "the voters say where 3 is now")
    quorum.nodes[1].kill()  # now each of the others needs the other
    quorum.create("by-a-quorum-of-which-one-has-moved", by=3)
