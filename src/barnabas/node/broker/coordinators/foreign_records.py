"""Records that a client, not a coordinator, writes to an internal topic, as Kafka lets those with a certain client id.

A record that cannot be read would have to be skipped whenever the partition is loaded. So it is refused, which Kafka
does not do; types of keys that nobody here knows are accepted, as when they are loaded.
"""

from __future__ import annotations

from barnabas.core.controller.topic_names import (
    CONSUMER_OFFSETS_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from barnabas.core.coordinator.records import Kinds, decode
from barnabas.core.groups.records import KINDS as GROUP_KINDS
from barnabas.core.share.records import KINDS as SHARE_KINDS
from barnabas.core.transactions.state import KINDS as TRANSACTION_KINDS
from barnabas.wire.batch import HEADER_BYTES, decode_records, read_header
from barnabas.wire.compression import Buffer
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.primitives import CodecError

RECORDS_MAX = 1_000
BYTES_MAX = 256 * 1024

KINDS: dict[str, Kinds] = {
    CONSUMER_OFFSETS_TOPIC: GROUP_KINDS,
    TRANSACTION_STATE_TOPIC: TRANSACTION_KINDS,
    SHARE_GROUP_STATE_TOPIC: SHARE_KINDS,
}


def require_readable(topic: str, batch: Buffer) -> None:
    """Raises `KafkaError` for a record that a coordinator could not read. What is no batch, the append refuses."""
    kinds = KINDS.get(topic)
    if kinds is None or len(batch) < HEADER_BYTES:
        return
    if read_header(batch).records_count > RECORDS_MAX:
        raise unreadable(topic, f"more than {RECORDS_MAX} records in a batch")
    try:
        records = decode_records(batch, 0, BYTES_MAX)
    except KafkaError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise unreadable(topic, f"more than {BYTES_MAX} bytes in a batch") from error
        return
    for record in records:
        try:
            decode(kinds, record.key, record.value)
        except CodecError as error:
            raise unreadable(topic, str(error)) from error


def unreadable(topic: str, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"A record cannot be written to {topic}: {why}")
