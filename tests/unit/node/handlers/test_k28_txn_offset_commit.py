"""A commit of offsets in a transaction, while the marker of the transaction before it is still on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.core.coordinator.decision import Marker
from barnabas.node.broker.transactions.markers import marker_batch
from barnabas.node.handlers import k28_txn_offset_commit as api
from barnabas.node.requests import RequestContext
from barnabas.node.storage.producer_state import ProducerState
from barnabas.wire.batch import read_header
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

REQUEST = TxnOffsetCommitRequest(transactional_id="t", group_id="g", producer_id=7, producer_epoch=3)


class Coordinator:
    """Says yes; markers of the transaction before arrive while it is asked."""

    def __init__(self, producers: ProducerState, markers: int) -> None:
        self._producers, self._markers = producers, markers
        self.asked = 0

    async def verify(self, *_: Any, **__: Any) -> dict[Any, Any]:
        self.asked += 1
        if self.asked <= self._markers:
            batch = marker_batch(Marker(7, 3, 0, committed=True), 0)
            self._producers.update(read_header(batch), batch, 0)
        return {}


def verify(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: RequestContext, markers: int) -> Coordinator:
    producers = ProducerState("t-0", str(tmp_path))
    coordinator = Coordinator(producers, markers)
    monkeypatch.setattr(api, "verify", coordinator.verify)
    led = SimpleNamespace(partition=SimpleNamespace(log=SimpleNamespace(producers=producers)))
    groups = SimpleNamespace(topic="__consumer_offsets", led=lambda index: led)
    node: Any = SimpleNamespace(groups=groups, clock=lambda: 0)
    asyncio.run(api._verify(context, REQUEST, 0, node))
    return coordinator


def test_a_marker_in_between_makes_the_coordinator_be_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Callable[..., RequestContext]
) -> None:
    assert verify(monkeypatch, tmp_path, context(28, 5), markers=0).asked == 1
    assert verify(monkeypatch, tmp_path, context(28, 5), markers=1).asked == 2


def test_it_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, context: Callable[..., RequestContext]
) -> None:
    with pytest.raises(KafkaError) as refused:
        verify(monkeypatch, tmp_path, context(28, 5), markers=3)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
