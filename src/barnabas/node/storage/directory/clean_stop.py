"""The mark of a clean stop, `.kafka_cleanshutdown`: JSON as Kafka writes it, and what only we want to know again.

`transactionIndexes` is a sum over the names of the transaction indexes: by it one that is gone is missed. Indexes that
a crash may have taken before, and that nobody has needed since, are still in doubt: those of a partition's segments
that begin below the offset in `doubted`.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.node.storage.log import PartitionLog

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


class CleanStop(NamedTuple):
    broker_epoch: int = -1
    transaction_indexes: int | None = None  # Kafka's mark has none
    doubted: Mapping[str, int] = {}  # by the names of the partitions' directories


def parse(text: str) -> CleanStop:
    """Whatever the file holds, that it is there says that the stop was a clean one."""
    found = CleanStop()
    try:
        mark = json.loads(text)
        found = found._replace(broker_epoch=int(mark["brokerEpoch"]))
        found = found._replace(transaction_indexes=int(mark["transactionIndexes"]))
        doubted = {str(name): int(offset) for name, offset in mark.get("doubted", {}).items()}
        return found._replace(doubted=doubted)
    except (ValueError, KeyError, TypeError, AttributeError):
        return found


def render(broker_epoch: int, logs: Iterable[PartitionLog]) -> bytes:
    listed = list(logs)
    mark: dict[str, object] = {
        "version": 0,
        "brokerEpoch": broker_epoch,
        "transactionIndexes": sum_of_transaction_indexes(listed),
    }
    bounds = {os.path.basename(log.directory): log.segments.transaction_indexes_suspected_below() for log in listed}
    if doubted := {name: offset for name, offset in bounds.items() if offset is not None}:
        mark["doubted"] = doubted
    return json.dumps(mark, separators=(",", ":")).encode()


def sum_of_transaction_indexes(logs: Iterable[PartitionLog]) -> int:
    found = [(log, segment) for log in logs for segment in log.segments if segment.transactions.exists]
    names = sorted(f"{os.path.basename(log.directory)}/{segment.base_offset}" for log, segment in found)
    return zlib.crc32("\n".join(names).encode())
