"""A node's own decisions, apart from its parts."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from barnabas.node.configuration import BrokerConfig
from barnabas.node.net.settings import NetworkSettings, names_hosts
from barnabas.node.node import Node
from tests.support.waiting import until

KEY = "max.connections.per.ip.overrides"


@pytest.mark.parametrize(
    ("text", "names"), [("", False), ("127.0.0.1:5,[::1]:3", False), ("127.0.0.1:5, some.host:3", True)]
)
def test_only_names_are_looked_up(text: str, names: bool) -> None:
    assert names_hosts(text) is names


def test_names_are_looked_up_in_a_thread_and_the_last_configuration_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer, where = threading.Event(), []

    def look_up(host: str, *arguments: Any, **options: Any) -> list[Any]:
        where.append(threading.current_thread())
        assert may_answer.wait(10)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.9", 0))]

    async def story() -> None:
        first = BrokerConfig.from_properties({KEY: "some.host:3"})
        second = BrokerConfig.from_properties({KEY: "other.host:4"})
        node = Node(first)
        told: list[NetworkSettings] = []
        server: Any = type("Server", (), {"reconfigure": lambda self, settings: told.append(settings)})()
        node.server = server
        security: Any = type("Security", (), {"reconfigure": lambda self, config: None})()
        node.security = security
        node._reconfigure(first)
        node._reconfigure(second)
        assert told == []
        may_answer.set()
        await until(lambda: told)
        assert [each.max_connections_per_ip_overrides for each in told] == [{"127.0.0.9": 4}]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(story())
    assert threading.main_thread() not in where
