"""A push query runs from when the server knows of it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from barnabas.client.errors import ClientError
from barnabas.pipelines.sql.server.pushes import PushQuery
from tests.support.waiting import wait_until


class NoKafka:
    def offsets(self, topics: list[str], start: int) -> dict[tuple[str, int], int]:
        return {}

    def consumer(self, wait_ms: int) -> Any:
        raise ClientError("nobody is there")


def test_a_query_that_ends_at_once_has_been_noted_before() -> None:
    """It was counted as running for good if it ended before the server had noted it."""
    ended: list[object] = []
    push = PushQuery(
        NoKafka(),  # type: ignore[arg-type]
        "transient_S_1",
        SimpleNamespace(topology=None),  # type: ignore[arg-type]
        [],
        start=0,
        limit=None,
        to_end=False,
        rows=lambda rows: True,
        done=lambda *told: ended.append(told),
    )
    time.sleep(0.1)
    assert ended == []
    push.start()
    wait_until(lambda: ended, "the end")
