"""What can be wrong with a topology, and with a record in it.

StreamsError
├ TopologyError     of the one who wrote it: told before anything runs
├ TopicMissing      a topic is not there; it may come to be, so a pipeline tries again
├ CheckpointError   the checkpoint belongs to another topology, or to other topics
└ RecordError       an operator can't go on with a record: it names operator, topic, partition and offset
"""

from __future__ import annotations

from barnabas.client.errors import ClientError


class StreamsError(Exception):
    pass


class TopologyError(StreamsError):
    pass


class TopicMissing(StreamsError, ClientError):
    pass


class CheckpointError(StreamsError):
    pass


class RecordError(StreamsError):
    pass
