"""A batch that runs on: its task commits transaction after transaction while there is input, without Spark.

Spark needs 50 to 65 ms for a batch however small. So a task that reads all of a batch goes on when that is committed:
it reads what has come into the same partitions since, and commits the results of that in the next transaction, for as
long as the topology says. Then Spark plans the next batch.

Exactly once
- A batch is [start, end), as Spark has noted. Behind it the task does steps: [end, e1), [e1, e2) and so on. Each
  transaction has the results of a step and a mark with the batch's number and the ends of all its steps so far.
- Who plans the next batch reads that mark first. The batch begins at the last step's end, and says so in the offset
  that Spark notes (`source`), so that it is the same batch when it is done again.
- State is written once, when the last step is committed, as the version behind the batch. If the task dies before, the
  batch is done again: its new task finds the mark, reads the batch and each step with the same ends as the first time,
  writes nothing to topics, and writes the state.
- A task that was given up and does not know it is shut out when another begins under its transactional id, and never
  begins again itself (`spark.sink.own_turn`).
- Only a task that has a batch for itself goes on: so it is always the same transactional id that tells of steps.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from barnabas.pipelines.spark.clients import cluster
from barnabas.pipelines.spark.draining import is_draining
from barnabas.pipelines.spark.reading_on import ReadingOn, Steps

if TYPE_CHECKING:
    from barnabas.pipelines.streams.sink import TopicSink
    from barnabas.pipelines.streams.stage import StageWork

PACE_S = 0.05  # between the begins of two steps: what a transaction costs is paid 20 times a second at most
IDLE_S = 0.1  # without a record for so long, the task ends
ROWS_MAX = 20_000  # in a step: with more, several tasks do better
NUMBERS_MAX = 2_000  # offsets in a mark


def run_on(
    work: StageWork,
    sink: TopicSink,
    batches: Iterable[pa.RecordBatch],
    part: str,
    onward: ReadingOn,
    limit_s: float,
    seen: list[int],
) -> None:
    """`seen` gets the numbers of records of the steps."""
    from barnabas.pipelines.streams.stage import forget_states

    ends_at = time.monotonic() + limit_s
    try:
        with sink.own_turn(part) as turn:
            if turn.committed is not None:
                repeat(work, batches, onward, Steps.parse(turn.committed.onward))
            else:
                turn.write(work.rows(batches))
                if limit_s:
                    with onward.open():
                        for rows, steps in steps_until(ends_at, work, onward):
                            seen.append(sum(one.num_rows for one in rows))
                            turn.write(work.rows(rows), str(steps))
        work.save()
    except BaseException:
        forget_states()  # they are ahead of their version
        raise


def repeat(work: StageWork, batches: Iterable[pa.RecordBatch], onward: ReadingOn, done: Steps) -> None:
    """What a former attempt has committed, for the state alone."""
    for _ in work.rows(batches):
        pass
    for ends in done.ends:
        for _ in work.rows(onward.read_to(dict(zip(done.partitions, ends, strict=True)))):
            pass


def steps_until(ends_at: float, work: StageWork, onward: ReadingOn) -> Iterator[tuple[list[pa.RecordBatch], Steps]]:
    steps = Steps.at(onward.ranges)
    began = time.monotonic()
    while not is_draining() and steps.numbers < NUMBERS_MAX:
        pause_s = began + PACE_S - time.monotonic()
        if pause_s > 0:
            time.sleep(pause_s)
        began = time.monotonic()
        if began >= ends_at:
            return
        rows = onward.read(min(IDLE_S, ends_at - began))
        if not rows or has_grown(work, onward):
            return
        steps = steps.with_step(onward.at)
        yield rows, steps
        if sum(one.num_rows for one in rows) > ROWS_MAX:
            return


def has_grown(work: StageWork, onward: ReadingOn) -> bool:
    """Where there is state, partitions are counted after the records came: what had come before a topic grew was placed
    by the number of partitions that the state has."""
    if not work.plan.stateful:
        return False
    counts = work.plan.topic_partitions
    found = cluster(onward.properties).metadata(list(counts)).topics
    return any(len(found[topic].partitions) != count for topic, count in counts.items())
