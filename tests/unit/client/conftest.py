"""A broker that says what a test tells it to, on a real socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.scripted_broker import Answer, ScriptedBroker


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedBroker]]:
    brokers: list[ScriptedBroker] = []

    def start(script: dict[int, Answer] | None = None, host: str = "127.0.0.1", **options: Any) -> ScriptedBroker:
        brokers.append(ScriptedBroker(script, host, **options))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()
