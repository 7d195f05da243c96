"""A registry whose Kafka comes late, goes and comes again."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from barnabas.testing import Node, StartFailed
from barnabas.testing.registry import Registry

SETTINGS = {"kafkagroup.session.timeout.ms": 6_000, "kafkagroup.heartbeat.interval.ms": 500}


def test_it_waits_for_kafka_and_goes_on_when_kafka_is_back(api_of: Any, subject: str) -> None:
    with Node() as node:
        registry = Registry(node.bootstrap_servers, SETTINGS)
        node.stop()
        starting = threading.Thread(target=registry.start)
        starting.start()
        node.start()
        starting.join(60)
        try:
            api = api_of(registry)
            _, first = api.register(subject, '"int"')
            node.kill()
            assert api("GET", f"/schemas/ids/{first['id']}")[0] == 200  # what is known can be read
            node.start()
            until = time.monotonic() + 60
            while (answer := api.register(subject, '"long"'))[0] != 200:
                assert answer[0] == 500
                assert time.monotonic() < until, answer
            assert answer[1]["version"] == 2
            assert api("GET", f"/subjects/{subject}/versions") == (200, [1, 2])
        finally:
            registry.stop()


def test_a_kafka_that_never_comes_is_told_in_a_sentence() -> None:
    registry = Registry("127.0.0.1:9", {"kafkastore.init.timeout.ms": 1_000})
    with pytest.raises(StartFailed, match=r"127\.0\.0\.1:9"):
        registry.start()
