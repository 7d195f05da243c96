"""A node and the services over it that have nothing to do take next to nothing of a processor."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.testing.service import ServiceProcess
from tests.support.waiting import wait_until

SETTLED_S = 30.0
WATCHED_S = 1.5
SHARE_MAX = 0.05  # of one core
TOPICS_OF_CONNECT = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Service(ServiceProcess):
    def __init__(self, name: str, config: dict[str, Any]) -> None:
        self.name = name  # type: ignore[misc]
        super().__init__(config, 60.0)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_of_core(pid: int) -> float:
    before = cpu_s(pid)
    time.sleep(WATCHED_S)
    return (cpu_s(pid) - before) / WATCHED_S


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_who_has_nothing_to_do_sleeps(tmp_path: Path) -> None:
    with Node() as node, ExitStack() as stack:
        servers = {"bootstrap.servers": node.bootstrap_servers}
        connect = {"group.id": "workers", "key.converter": CONVERTER, "value.converter": CONVERTER}
        topics = {key: key.partition(".")[0] for key in TOPICS_OF_CONNECT}
        services = [
            Service("registry", {"kafkastore.bootstrap.servers": node.bootstrap_servers}),
            Service("rest", servers),
            Service("connect", servers | connect | topics),
            Service("sql", servers | {"ksql.state.dir": str(tmp_path)}),
        ]
        for service in services:
            stack.enter_context(service)
        pids = {"node": node.pid} | {service.name: service.pid for service in services}
        for name, pid in pids.items():
            wait_until(lambda pid=pid: share_of_core(pid) < SHARE_MAX, f"{name} sleeps", SETTLED_S)
