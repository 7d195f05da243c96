"""Markers: the control records by which partitions learn how a transaction ended.

Those of __consumer_offsets are written by the group coordinator, which makes the transaction's offsets valid, or drops
them, with the same append.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.core.controller.topic_names import CONSUMER_OFFSETS_TOPIC
from barnabas.core.coordinator.decision import Decision, Marker
from barnabas.core.coordinator.loading import marker_record
from barnabas.core.coordinator.promise import Promise
from barnabas.node.broker.partition import Partition
from barnabas.node.storage.origin import Origin
from barnabas.wire.batch import Record, build_batch
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Marking

NOT_READY = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


def write_marker(node: Marking, topic: str, index: int, marker: Marker, transaction_version: int) -> Promise[None]:
    """Kept when the marker is committed; a KafkaError is raised if it cannot be appended."""
    partition = node.partitions.get(topic, index)
    if partition is None:
        raise KafkaError(node.partitions.missing_error(node.image, topic, index), f"{topic}-{index} is not here.")
    partition.require_available()
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "A marker belongs to a producer and its epoch.")
    if topic == CONSUMER_OFFSETS_TOPIC:
        return _write_to_groups(node, partition, index, marker, transaction_version)
    _check(partition, marker, transaction_version)
    return _append(node, partition, marker)


def _check(partition: Partition, marker: Marker, transaction_version: int) -> None:
    partition.log.producers.check_marker(
        marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, transaction_version
    )


def _write_to_groups(
    node: Marking, partition: Partition, index: int, marker: Marker, transaction_version: int
) -> Promise[None]:
    try:
        led = node.groups.led(index)
    except KafkaError as error:
        raise _as_of_a_partition(error) from error
    # Offsets of the next transaction may be decided and not yet in the log: a late marker must not make them valid.
    led.write()
    _check(partition, marker, transaction_version)
    promise: Promise[None] = Promise()
    led.submit(lambda _: Decision([], None, marker=marker)).then(lambda done: _pass_on(done, promise))
    led.write()  # at once: whoever looks at the partition after this finds the transaction ended
    return promise


def _pass_on(done: Promise[None], promise: Promise[None]) -> None:
    if done.error is None:
        promise.set(None)
    else:
        promise.fail(_as_of_a_partition(done.error))


def _as_of_a_partition(error: KafkaError) -> KafkaError:
    """Coordinators of transactions look for the leader again after this error; Kafka's never repeats a marker that was
    answered with an error of the coordinators, and its transaction hangs."""
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) if error.code in NOT_READY else error


def _append(node: Marking, partition: Partition, marker: Marker) -> Promise[None]:
    now_ms = node.clock()
    appended = partition.append(marker_batch(marker, now_ms), -1, now_ms, Origin.COORDINATOR)
    promise: Promise[None] = Promise()
    if appended.flush_due:
        node.log_dirs.sync(partition.log).add_done_callback(lambda done: _synced(done, promise))
    elif partition.high_watermark > appended.last_offset:
        promise.set(None)
    else:
        _UntilCommitted(partition, appended.last_offset + 1, promise)
    return promise


def marker_batch(marker: Marker, now_ms: int) -> bytearray:
    key, value = marker_record(marker)
    return build_batch(
        [Record(0, now_ms, key, value)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
    )


def _synced(done: asyncio.Future[int], promise: Promise[None]) -> None:
    if done.cancelled() or done.exception() is not None:
        promise.fail(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR))
    else:
        promise.set(None)


class _UntilCommitted:
    """Watches a partition until its high watermark has passed a marker."""

    __slots__ = ("_end_offset", "_leader_epoch", "_partition", "_promise")

    def __init__(self, partition: Partition, end_offset: int, promise: Promise[None]) -> None:
        self._partition = partition
        self._leader_epoch = partition.leader_epoch
        self._end_offset = end_offset
        self._promise = promise
        partition.watchers[self] = None

    def advanced(self, size_bytes: int, stable_bytes: int) -> bool:
        if self._partition.high_watermark < self._end_offset:
            return True
        self._promise.set(None)
        return False

    def changed(self) -> None:
        error = self._partition.acknowledgement_error(self._leader_epoch)
        if error not in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
            self._promise.fail(KafkaError(error))
