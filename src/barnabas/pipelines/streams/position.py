"""Where a topology that keeps nothing stands, so that others go on for it: `leave` gives the offsets behind all that it
has written, and shuts it out of its checkpoint for good.

Spark notes a batch before it and after it; its tasks commit one by one in between. So of a batch that was given up half
done, each task is asked for by its mark (`spark.sink.commit`): what it has committed is behind, the rest is to be done.
Under the id of each task a last mark is left, of a batch that never comes. It tells which batch the task had committed
before, so that whoever asks again hears the same, and a driver that does not know of its end yet writes no more. What
was found is noted in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.client.errors import Refused
from barnabas.client.metadata import TopicPartition
from barnabas.pipelines.spark.offsets import StreamOffset
from barnabas.pipelines.spark.options import SourceOptions
from barnabas.pipelines.spark.ranges import OffsetRange
from barnabas.pipelines.spark.sink.commit import CLOSING_ATTEMPTS, leave_mark
from barnabas.pipelines.spark.sink.link import SinkLink, drop_link, shared_link
from barnabas.pipelines.spark.sink.messages import Digest, Trace
from barnabas.pipelines.spark.sink.options import SinkOptions
from barnabas.pipelines.spark.sink.transactions import FENCED
from barnabas.pipelines.spark.tasks import planned_for_stream
from barnabas.pipelines.streams.checkpoint import batches_in, read_note, write_note
from barnabas.pipelines.streams.sink import SINK_NAME
from barnabas.pipelines.streams.state.storage import Directory, settle

LEFT = "left.json"
NO_BATCH = 1 << 62  # its number plus one, in the mark of a task that writes no more
NOTHING = StreamOffset({})


def leave(
    directory: Directory, settings: Mapping[str, str], *, exactly_once: bool, partitions: int = 0
) -> StreamOffset:
    """Of a query that has been stopped, as far as it could be. Without offsets if it never began. `settings` are those
    that the topology was started with, `partitions` how many it reads at least."""
    known = read_note(directory, LEFT)
    if known is not None:
        return StreamOffset.parse(known)
    found = _behind(directory, settings, exactly_once, partitions)
    write_note(directory, LEFT, found.to_json())
    settle()
    return found


def _behind(directory: Directory, settings: Mapping[str, str], exactly_once: bool, partitions: int) -> StreamOffset:
    batch = max(batches_in(directory, "offsets"), default=None)
    if batch is None:
        if exactly_once and directory.has("metadata"):
            last_batches(directory, settings, partitions)
        return NOTHING
    end = noted_offset(directory, batch)
    start = noted_offset(directory, batch - 1) if batch else NOTHING
    is_done = batch in batches_in(directory, "commits")
    tasks = planned(start, end, settings)
    last = last_batches(directory, settings, max(len(end.offsets), partitions)) if exactly_once else []
    if is_done:
        return StreamOffset(end.offsets, end.ids)
    found = {one: end.begin(start, one) for one in end.offsets}
    for task, ranges in enumerate(tasks):
        if exactly_once and last[task] == batch:
            found |= {one.partition: one.end for one in ranges}
    return StreamOffset({one: offset for one, offset in found.items() if offset is not None}, end.ids)


def noted_offset(directory: Directory, batch: int) -> StreamOffset:
    """What Spark has noted: a version, settings, and a line for each source, of which there is one."""
    return StreamOffset.parse(json.loads(directory.under("offsets").read(str(batch)).decode().splitlines()[2]))


def planned(start: StreamOffset, end: StreamOffset, settings: Mapping[str, str]) -> list[Sequence[OffsetRange]]:
    """The tasks of a batch, as the source makes them. A partition of which the beginning is not known has none."""
    options = SourceOptions.parse({**settings, "subscribe": ",".join({topic for topic, _ in end.offsets})})
    begins: dict[TopicPartition, Any] = {one: end.begin(start, one) for one in sorted(end.offsets)}
    ranges = [OffsetRange(one, at, end.offsets[one]) for one, at in begins.items() if at is not None]
    return [task.value for task in planned_for_stream(options, ranges)]


def last_batches(directory: Directory, settings: Mapping[str, str], tasks: int) -> list[int]:
    """The last batch that each task has committed, -1 for none. None of them writes any more."""
    query = json.loads(directory.read("metadata"))["id"]
    options = SinkOptions.parse({**settings, "exactlyOnce": "true"})
    try:
        link = shared_link(options.properties)
        return [close(f"barnabas.{query}.{SINK_NAME}.{task}", link, options) for task in range(tasks)]
    except BaseException:
        drop_link(options.properties)
        raise


def close(transactional_id: str, link: SinkLink, options: SinkOptions) -> int:
    """Who begins under the id at this very moment shuts this out, and is shut out in turn."""
    transactions = link.transactions
    for attempt in range(CLOSING_ATTEMPTS):
        transaction = transactions.begin(transactional_id, options.transaction_timeout_ms)
        mark = transactions.last_mark(transactional_id, options.anchor_topic)
        if mark is not None and mark.offset == NO_BATCH:
            return int(Trace.parse(mark.metadata).onward)
        last = -1 if mark is None else mark.offset - 1
        try:
            leave_mark(transaction, NO_BATCH, str(Trace(Digest(), "left", str(last))), link, options)
            transactions.end(transaction, commit=True)
        except Refused as refused:
            if refused.code not in FENCED or attempt + 1 == CLOSING_ATTEMPTS:
                raise
        else:
            return last
    raise AssertionError("an attempt ends or raises")
