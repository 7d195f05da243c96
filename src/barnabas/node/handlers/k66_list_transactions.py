"""ListTransactions, versions 0 to 2: the transactional ids that this node coordinates and the caller may see.

Filters: by state and by producer id, from 1 on by how long a transaction has been open, from 2 on by a pattern that the
whole id matches. Deviations from Kafka: a pattern may be too large (`core/patterns`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.core.patterns import Pattern, PatternError
from barnabas.core.security.model import Operation, Resource
from barnabas.core.transactions.state import STATE_BY_TEXT, Transaction
from barnabas.node.requests import RequestContext
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from barnabas.node.ports import Transactions

LISTED_PER_TURN = 1_000


async def handle(
    context: RequestContext, request: ListTransactionsRequest, node: Transactions
) -> ListTransactionsResponse:
    if node.transactions.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    is_wanted = _filter(request, node.clock())
    listed: list[TransactionState] = []
    async for found in in_turns(node.transactions.all()):
        if is_wanted(found) and context.may(Operation.DESCRIBE, Resource.transactional_id(found.transactional_id)):
            listed.append(
                TransactionState(
                    transactional_id=found.transactional_id,
                    producer_id=found.producer_id,
                    transaction_state=found.state.text,
                )
            )
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in STATE_BY_TEXT],
        transaction_states=listed,
    )


def error_response(request: ListTransactionsRequest, error: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error.code)


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    states = {STATE_BY_TEXT[name] for name in request.state_filters if name in STATE_BY_TEXT}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter
    pattern = _pattern(request.transactional_id_pattern)

    def is_wanted(found: Transaction) -> bool:
        return (
            (not request.state_filters or found.state in states)
            and (not producer_ids or found.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - found.started_ms > duration_ms)
            and (pattern is None or pattern.fullmatch(found.transactional_id))
        )

    return is_wanted


def _pattern(text: str | None) -> Pattern | None:
    try:
        return Pattern(text) if text else None
    except PatternError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
