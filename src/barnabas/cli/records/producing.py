"""Feeding a producer from an endless stream.

No more is read than the producer's buffer takes, and nothing is lost while a broker is away. What cannot be sent is
told, and counted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from barnabas.client.errors import ClientError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer import Producer

CHUNK_BYTES = 1 << 16
CLOSE_TIMEOUT_S = 10.0


class Failures:
    """Records that were read and could not be sent; told from the producer's thread."""

    def __init__(self, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._lock = threading.Lock()

    def add(self, error: Exception, count: int = 1) -> None:
        with self._lock:
            self.count += count
        what = "a record" if count == 1 else f"{count} records"
        print(f"Error when sending {what} to topic {self._topic}: {error}", file=sys.stderr)


def wait_for_topic(cluster: Cluster, topic: str, timeout_ms: int) -> None:
    """Asks for a topic until it is there, as producers do: a broker may create it when asked."""
    from barnabas.client.cluster import UNKNOWN, Attempts
    from barnabas.client.errors import Refused
    from barnabas.wire.errors import ErrorCode

    attempts = Attempts(cluster.settings, timeout_ms)
    while True:
        found = cluster.metadata([topic], allow_auto_topic_creation=True).topics.get(topic)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error
        if not code:
            return
        if code not in UNKNOWN and code is not ErrorCode.LEADER_NOT_AVAILABLE:
            raise Refused(code, f"Nothing can be sent to topic {topic}")
        if not attempts.pause():
            from barnabas.cli.connect import unknown_topic

            known = cluster.metadata().topics
            raise unknown_topic(topic, known, f"Topic {topic} not present in metadata after {timeout_ms} ms.")


def lines(stream: BinaryIO, longest: int, too_long: Callable[[int], None]) -> Iterator[list[bytes]]:
    """Lines without their ends, as many at a time as are there. No line is kept beyond `longest` bytes."""
    read = getattr(stream, "read1", stream.read)
    rest = b""
    number = 0
    skipping = False
    while True:
        chunk = read(CHUNK_BYTES)
        if not chunk:
            if rest and not skipping:
                yield [rest.removesuffix(b"\r")]
            return
        found = (rest + chunk).split(b"\n")
        rest = found.pop()
        if skipping and found:
            found, skipping = found[1:], False
            number += 1
        number += len(found)
        if found:
            yield [line.removesuffix(b"\r") for line in found]
        if skipping:
            rest = b""
        elif len(rest) > longest:
            too_long(number + 1)
            rest, skipping = b"", True


def feed_to_the_end(producer: Producer, failures: Failures, feed: Callable[[], None]) -> int:
    """The exit code. What was read is delivered; a second Ctrl-C gives up on it."""
    try:
        feed()
    except KeyboardInterrupt:
        close_hastily(producer)
        return 130
    except BaseException:
        close_hastily(producer)
        raise
    try:
        producer.close()
    except ClientError as error:
        failures.add(error)
    return 1 if failures.count else 0


def close_hastily(producer: Producer) -> None:
    try:
        producer.close(CLOSE_TIMEOUT_S)
    except ClientError as error:
        print(f"Some of what was read was not sent: {error}", file=sys.stderr)
