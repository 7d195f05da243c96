"""What sources of changes share: work is a generator of batches, with the offset on the last record of each.

A turn takes as many batches as its limits allow. Between two batches the generator may be dropped: the next turn
makes a new one from the committed offset. An offset that no record carries travels with a record without a topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from barnabas.pipelines.connect.connector import Settings, SourceConnector, offset_key
from barnabas.pipelines.connect.connectors.changes.envelope import ChangeTable, TransactionEvents, heartbeat
from barnabas.pipelines.connect.connectors.changes.settings import (
    OLDER_NAMES,
    Filters,
    skipped_operations,
    with_older_names,
)
from barnabas.pipelines.connect.data.record import Record
from barnabas.pipelines.connect.data.schema import Struct
from barnabas.pipelines.connect.errors import ConfigError

BATCH = 2_000
SNAPSHOT_TRANSACTION_MS = 900_000  # a snapshot is one transaction; brokers allow no longer one by default
Batch = list[Record]


class ChangeSource(SourceConnector):
    space = "schema"
    older_names = tuple(OLDER_NAMES)

    def __init__(self, settings: Settings, *, name: str = "", task: int = 0) -> None:
        self._work: Iterator[Batch] | None = None
        super().__init__(with_older_names(settings), name=name, task=task)

    def configure(self) -> None:
        self.prefix = self.values["topic.prefix"]
        if not self.prefix:
            raise ConfigError("must not be empty", "topic.prefix", "")
        self.partition = {"server": self.prefix}
        self.filters = Filters(self.values, self.space)
        self.skipped = skipped_operations(self.values)
        self.mode = self.values["snapshot.mode"].lower()
        self.tables: dict[Any, Any] = {}
        metadata = self.values["provide.transaction.metadata"]
        topic = f"{self.prefix}.{self.values['topic.transaction']}"
        self.transactions = TransactionEvents(topic) if metadata else None
        self._heartbeat_at = 0.0

    @property
    def pause_ms(self) -> int:
        return 0  # `has_news` is cheap

    def poll(self) -> Sequence[Record]:
        if self._work is None:
            self._work = self.work(self.offset(self.partition))
        return next(self._work, [])

    def work(self, offset: dict[str, Any] | None) -> Iterator[Batch]:
        raise NotImplementedError

    def placed(self, records: Batch, offset: dict[str, Any]) -> Batch:
        """With the offset on the last one."""
        if not records:
            records = [Record("")]
        records[-1].source_partition, records[-1].source_offset = self.partition, offset
        self.offsets[offset_key(self.partition)] = offset
        return records

    def with_heartbeat(self, records: Batch, offset: Mapping[str, Any]) -> tuple[Batch, dict[str, Any]]:
        """The records, and a heartbeat if it is time for one; the offset keeps when that was."""
        interval, now_ms = self.values["heartbeat.interval.ms"], time.time_ns() // 1_000_000
        if not interval or now_ms - offset.get("heartbeat_ms", 0) < interval:
            return records, dict(offset)
        prefix = self.values["topic.heartbeat.prefix"] or self.values["heartbeat.topics.prefix"]
        return [*records, heartbeat(prefix, self.prefix)], dict(offset) | {"heartbeat_ms": now_ms}

    def heartbeat_is_due(self, offset: Mapping[str, Any]) -> bool:
        interval = self.values["heartbeat.interval.ms"]
        return bool(interval) and time.time_ns() // 1_000_000 - offset.get("heartbeat_ms", 0) >= interval

    def mark(self, first_table: bool, last_table: bool, first: bool, last: bool) -> str:
        if last and last_table:
            return "last"
        if first and first_table:
            return "first"
        if last:
            return "last_in_data_collection"
        return "first_in_data_collection" if first else "true"

    def made_table(self, topic: str, columns: Any, key: Sequence[str], source: Any) -> ChangeTable:
        return ChangeTable(
            topic, columns, key, source, tombstones=self.values["tombstones.on.delete"], skipped=self.skipped
        )

    def block(self, transaction_id: str, collection: str) -> Struct | None:
        return None if self.transactions is None else self.transactions.block(transaction_id, collection)
