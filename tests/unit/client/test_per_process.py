"""A child of fork makes clients of its own, and its parent's go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from barnabas.client.cluster import Cluster
from barnabas.client.per_process import PerProcess
from barnabas.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def in_child(work: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_client_is_kept_for_its_key_until_it_is_dropped(scripted: Any) -> None:
    broker = scripted()
    kept: PerProcess[Cluster] = PerProcess()

    def made() -> Cluster:
        return Cluster(broker.settings())

    first = kept.get("a", made)
    assert kept.get("a", made) is first
    assert kept.get("b", made) is not first
    first.any_connection()
    kept.drop("a")
    kept.drop("a")
    assert kept.get("a", made) is not first
    kept.clear()


def test_a_child_uses_neither_its_parents_client_nor_its_sockets(scripted: Any) -> None:
    broker = scripted({12: lambda request, version: HeartbeatResponse(error_code=request.generation_id)})
    kept: PerProcess[Cluster] = PerProcess()

    def client() -> Cluster:
        return kept.get("a", lambda: Cluster(broker.settings()))

    parents = client()
    connection = parents.any_connection()

    def ask_in_child() -> bool:
        own = client()
        return own is not parents and own.ask(HeartbeatRequest(generation_id=5)).error_code == 5

    connection.send(HeartbeatRequest(generation_id=7))  # its answer is the parent's
    assert in_child(ask_in_child)
    assert connection.receive().error_code == 7
    assert client() is parents
    assert broker.connections == 2
    kept.clear()
