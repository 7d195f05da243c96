"""What can be wrong with a topology, and with a record in it.

StreamsError
├ TopologyError     of the one who wrote it: told before anything runs, with the file and line of the mistake
├ TopicMissing      a topic is not there; it may come to be, so a pipeline tries again
├ CheckpointError   the checkpoint belongs to another topology, or to other topics
│ └ TopicGrown      a topic has another number of partitions than the state: it can be moved (`moving`)
├ StateUnreachable  state can't be read or written where it lies: no space, no permission, no such bucket
├ StateDamaged      a file of the state is not there or not whole, and no older version can stand in
└ RecordError       an operator can't go on with a record: it names operator, topic, partition and offset
"""

from __future__ import annotations

import os
import sys

from barnabas.client.errors import ClientError

OURS = ("barnabas.pipelines.streams", "barnabas.streams")


class StreamsError(Exception):
    pass


class TopologyError(StreamsError):
    """`where` is the place of the operator that it is about, or else of the call that raises it."""

    def __init__(self, sentence: str, where: str | None = None) -> None:
        place = where or user_place()
        super().__init__(f"{place}: {sentence}" if place else sentence)


class TopicMissing(StreamsError, ClientError):
    pass


class CheckpointError(StreamsError):
    pass


class TopicGrown(CheckpointError):
    pass


class StateUnreachable(StreamsError):
    pass


class StateDamaged(StreamsError):
    pass


class RecordError(StreamsError):
    pass


def user_place() -> str:
    """File and line of the code that called this package; empty where nobody did."""
    frame = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(OURS):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    here = os.path.relpath(path)
    return f"{path if here.startswith(os.pardir) else here}:{frame.f_lineno}"
