"""Records of __remote_log_metadata in words, as Kafka's tool tells them: which segments are in remote storage."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.files.log_decoders import Decoder
from barnabas.wire.batch import Record as LogRecord
from barnabas.wire.codec import DecodeError
from barnabas.wire.records.framing import decode_framed_record
from barnabas.wire.records.remote_log import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpoch,
    TopicIdPartition,
)
from barnabas.wire.schema import Record

TYPES: dict[int, type[Record]] = {
    record_type.api_key: record_type
    for record_type in (
        RemoteLogSegmentMetadataRecord,
        RemoteLogSegmentMetadataUpdateRecord,
        RemotePartitionDeleteMetadataRecord,
        RemoteLogSegmentMetadataSnapshotRecord,
    )
}
SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log() -> Decoder:
    def decode(record: LogRecord) -> tuple[str | None, str | None]:
        try:
            if record.value is None:
                raise DecodeError("the record has no value")
            value, _ = decode_framed_record(record.value, TYPES)
            return None, _told(value)
        except DecodeError as error:
            return None, f"Error at offset {record.offset}, skipping. {error}"

    return decode


def _told(record: Record) -> str:
    """As Kafka's own classes print themselves."""
    match record:
        case RemoteLogSegmentMetadataRecord():
            return (
                f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment(record.remote_log_segment_id)}, "
                f"startOffset={record.start_offset}, endOffset={record.end_offset}, brokerId={record.broker_id}, "
                f"maxTimestampMs={record.max_timestamp_ms}, eventTimestampMs={record.event_timestamp_ms}, "
                f"{_contents(record)}}}"
            )
        case RemoteLogSegmentMetadataUpdateRecord():
            return (
                f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment(record.remote_log_segment_id)}, "
                f"customMetadata={_custom(record.custom_metadata)}, "
                f"state={_state(SEGMENT_STATES, record.remote_log_segment_state)}, "
                f"eventTimestampMs={record.event_timestamp_ms}, brokerId={record.broker_id}}}"
            )
        case RemotePartitionDeleteMetadataRecord():
            return (
                f"RemotePartitionDeleteMetadata{{topicPartition={_partition(record.topic_id_partition)}, "
                f"state={_state(DELETE_STATES, record.remote_partition_delete_state)}, "
                f"eventTimestampMs={record.event_timestamp_ms}, brokerId={record.broker_id}}}"
            )
        case RemoteLogSegmentMetadataSnapshotRecord():
            return (
                f"RemoteLogSegmentMetadataSnapshot{{segmentId={record.segment_id}, startOffset={record.start_offset}, "
                f"endOffset={record.end_offset}, maxTimestampMs={record.max_timestamp_ms}, {_contents(record)}}}"
            )
    raise DecodeError(f"{type(record).__name__} is no record of remote logs")


def _contents(record: RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataSnapshotRecord) -> str:
    return (
        f"segmentLeaderEpochs={_epochs(record.segment_leader_epochs)}, "
        f"segmentSizeInBytes={record.segment_size_in_bytes}, customMetadata={_custom(record.custom_metadata)}, "
        f"state={_state(SEGMENT_STATES, record.remote_log_segment_state)}, "
        f"txnIdxEmpty={'true' if record.txn_index_empty else 'false'}"
    )


def _segment(segment: RemoteLogSegmentId) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(segment.topic_id_partition)}, id={segment.id}}}"


def _partition(partition: TopicIdPartition) -> str:
    return f"{partition.id}:{partition.name}-{partition.partition}"


def _epochs(epochs: Sequence[SegmentLeaderEpoch]) -> str:
    starts = sorted((epoch.leader_epoch, epoch.offset) for epoch in epochs)
    return f"{{{', '.join(f'{epoch}={offset}' for epoch, offset in starts)}}}"


def _custom(metadata: bytes | None) -> str:
    return "Optional.empty" if metadata is None else f"Optional[CustomMetadata{{{len(metadata)} bytes}}]"


def _state(names: Sequence[str], number: int) -> str:
    if not 0 <= number < len(names):
        raise DecodeError(f"state {number} is unknown")
    return names[number]
