"""The loader: committed records become this node's image, and whoever acts on the metadata is told of each change.

Theory. Every node has one, whether it leads the quorum or not; the image is what the node knows and answers from.
Committed batches queue up here, so the quorum never waits for a node to act on them. One task takes all that wait,
replays them into the image, and tells the publishers, in the order in which they were added, what has changed; the next
publisher begins when the one before has finished. A snapshot replaces the image; publishers are told the difference.

`published_offset` is the last offset that every publisher has acted on; `reached` waits for it.

A publisher that fails, or a record that cannot be replayed, ends it: `on_fault` is given a sentence and the node has to
stop, because it would serve what it has not applied. Whoever waits is told UNKNOWN_SERVER_ERROR: the change is
committed, and this node cannot say more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from barnabas.core.metadata.difference import difference
from barnabas.core.metadata.records import MetadataError
from barnabas.core.metadata.state import MetadataDelta, MetadataImage
from barnabas.node.raft.batches import MetadataBatch
from barnabas.node.raft.snapshots import SnapshotContent, SnapshotId
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.records.raft import KRaftVersionRecord

log = logging.getLogger(__name__)

Publish: TypeAlias = Callable[[MetadataDelta], Awaitable[None] | None]


class _Publisher(NamedTuple):
    name: str
    publish: Publish


class _Snapshot(NamedTuple):
    id: SnapshotId
    content: SnapshotContent


class MetadataLoader:
    def __init__(self, image: MetadataImage, on_fault: Callable[[str], None]) -> None:
        """`image` is what was loaded from the disk, and is committed."""
        self.image = image
        self.published_offset = image.offset
        # Told how many bytes of records the image has grown by, and when they were written.
        self.on_replayed: Callable[[int, int], None] | None = None
        self._on_fault = on_fault
        self._publishers: list[_Publisher] = []
        self._queue: list[MetadataBatch | _Snapshot] = []
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._fault = ""

    def add_publisher(self, name: str, publish: Publish) -> None:
        self._publishers.append(_Publisher(name, publish))

    def clear_publishers(self) -> None:
        """What is committed from now on goes into the image, and nobody acts on it: the node is stopping."""
        self._publishers.clear()

    async def reached(self, offset: int) -> None:
        """Returns when all publishers have acted on everything up to this committed offset."""
        if self.published_offset >= offset:
            return
        if self._fault:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self._fault)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((offset, waiter))
        await waiter

    async def stop(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    # The quorum's listener

    def handle_commit(self, batches: Sequence[MetadataBatch]) -> None:
        self._take(batches)

    def handle_load_snapshot(self, snapshot_id: SnapshotId, content: SnapshotContent) -> None:
        self._take([_Snapshot(snapshot_id, content)])

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        """The image does not depend on who leads."""

    # Publishing

    def _take(self, committed: Sequence[MetadataBatch | _Snapshot]) -> None:
        self._queue += committed
        if self._task is None and not self._fault:
            self._task = asyncio.get_running_loop().create_task(self._publish_all(), name="metadata-loader")

    async def _publish_all(self) -> None:
        doing = ""
        try:
            while self._queue:
                doing = "replayed"
                delta = self._replay_next()
                for publisher in self._publishers:
                    doing = f"applied by the {publisher.name}"
                    result = publisher.publish(delta)
                    if result is not None:
                        await result
                self.published_offset = self.image.offset
                self._release()
        except Exception as error:
            log.exception("Committed metadata after offset %d could not be %s", self.published_offset, doing)
            self._fail(f"Committed metadata up to offset {self.image.offset} could not be {doing}: {error!r}")
        finally:
            self._task = None

    def _replay_next(self) -> MetadataDelta:
        """All batches that wait, up to the next snapshot, or that snapshot alone."""
        queue, first = self._queue, self._queue[0]
        if isinstance(first, _Snapshot):
            self._queue = queue[1:]
            before, self.image = self.image, _image_of(first)
            return difference(before, self.image)
        batches = list(takewhile(lambda each: isinstance(each, MetadataBatch), queue))
        self._queue = queue[len(batches) :]
        delta = MetadataDelta()
        for batch in batches:
            assert isinstance(batch, MetadataBatch)
            self._replay(batch, delta)
        return delta

    def _replay(self, batch: MetadataBatch, delta: MetadataDelta) -> None:
        image = self.image
        if batch.base_offset != image.offset + 1:
            raise MetadataError(f"offset {image.offset + 1} is missing: the next batch begins at {batch.base_offset}")
        for record in batch.records:
            if not batch.is_control or isinstance(record, KRaftVersionRecord):
                image.replay(record, delta)
        image.offset, image.epoch = batch.last_offset, batch.epoch
        if self.on_replayed is not None:
            self.on_replayed(batch.size_bytes, batch.timestamp_ms)

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, []
        for offset, waiter in waiters:
            if offset > self.published_offset:
                self._waiters.append((offset, waiter))
            elif not waiter.done():
                waiter.set_result(None)

    def _fail(self, fault: str) -> None:
        self._fault = fault
        waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            if not waiter.done():
                waiter.set_exception(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, fault))
        self._on_fault(fault)


def _image_of(snapshot: _Snapshot) -> MetadataImage:
    image = MetadataImage()
    for record in snapshot.content.control_records:
        if isinstance(record, KRaftVersionRecord):
            image.replay(record)
    image.replay_all(snapshot.content.records)
    image.offset, image.epoch = snapshot.id.end_offset - 1, snapshot.id.epoch
    return image
