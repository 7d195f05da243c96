"""InitProducerId without a transactional id: ids for idempotent producers."""

from typing import Any

import pytest

from barnabas.wire.messages.init_producer_id import InitProducerIdRequest


@pytest.mark.parametrize("version", range(6))
def test_an_idempotent_producer_gets_an_id(both: Any, version: int) -> None:
    both.same(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)


def test_every_producer_gets_another_id(both: Any) -> None:
    for side in both.sides:
        ids = [
            side.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4).producer_id
            for _ in range(20)
        ]
        assert ids == list(range(ids[0], ids[0] + 20)), side.name


@pytest.mark.parametrize("timeout_ms", [0, -1, 1, 2_147_483_647])
def test_the_time_out_means_nothing_without_transactions(both: Any, timeout_ms: int) -> None:
    both.same(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=timeout_ms), 4)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch"), [(0, 0), (5, 3), (5, -1), (-1, 3), (9_999_999, 1), (-2, -2), (5, 32767)]
)
@pytest.mark.parametrize("version", [3, 5])
def test_a_producer_that_brings_its_id(both: Any, producer_id: int, producer_epoch: int, version: int) -> None:
    both.same(
        InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        ),
        version,
    )


@pytest.mark.parametrize("version", [0, 5])
def test_an_empty_transactional_id_is_refused(both: Any, version: int) -> None:
    both.same(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000), version)
