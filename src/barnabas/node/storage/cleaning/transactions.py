"""Transactions while a log is walked from its start: whose records were aborted, and which markers are still needed.

Records of an aborted transaction go at once. A marker stays as long as a batch of its transaction was met before it:
without it a reader would not know how to take the records. When none was met, the marker gets a delete horizon, and
is removed when that has passed. What the markers say is what the indexes must say: to believe a wrong one would be to
drop what was committed. An entry of the `.txnindex` lives as long as records of its transaction may be there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from barnabas.node.storage.cleaning.records import Uncleanable
from barnabas.node.storage.producer_state import ABORT_MARKER, COMMIT_MARKER
from barnabas.node.storage.segment.txn_index import AbortedTransaction
from barnabas.wire.batch import BatchHeader


class WalkedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()  # of the aborted ones, those with a batch
        self._committed: set[int] = set()

    def batch_is_aborted(self, header: BatchHeader) -> bool:
        self._arrive_at(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def marker_is_needed(self, header: BatchHeader, kind: int | None) -> tuple[bool, AbortedTransaction | None]:
        """`kind` is None for a marker that was emptied. Also the index entry that goes with an abort marker."""
        self._arrive_at(header.last_offset)
        producer_id = header.producer_id
        if (kind == ABORT_MARKER and producer_id in self._committed) or (
            kind == COMMIT_MARKER and producer_id in self._met
        ):
            raise Uncleanable(
                f"the marker at offset {header.base_offset} contradicts what the transaction indexes say of producer "
                f"{producer_id}"
            )
        if kind == ABORT_MARKER:
            aborted = self._aborted.pop(producer_id, None)
            if producer_id in self._met:
                self._met.discard(producer_id)
                return True, aborted
            return False, None
        if kind == COMMIT_MARKER:
            needed = producer_id in self._committed
            self._committed.discard(producer_id)
            return needed, None
        return kind is not None, None

    def _arrive_at(self, offset: int) -> None:
        while self._to_come and self._to_come[0].first_offset <= offset:
            aborted = self._to_come.popleft()
            self._aborted.setdefault(aborted.producer_id, aborted)
