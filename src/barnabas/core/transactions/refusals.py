"""Why a request about a transaction is refused."""

from __future__ import annotations

from barnabas.core.transactions.state import Transaction
from barnabas.wire.errors import ErrorCode, KafkaError


def no_producer(transactional_id: str, producer_id: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{producer_id} is not the producer id of '{transactional_id}'."
    )


def fenced(found: Transaction) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"'{found.transactional_id}' belongs to producer {found.producer_id} in epoch {found.producer_epoch} now.",
    )


def concurrent(found: Transaction) -> KafkaError:
    return KafkaError(
        ErrorCode.CONCURRENT_TRANSACTIONS, f"The transaction of '{found.transactional_id}' is still being ended."
    )


def wrong_state(found: Transaction, committed: bool) -> KafkaError:
    wanted = "committed" if committed else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"'{found.transactional_id}' is in {found.state.text} and cannot be {wanted}."
    )
