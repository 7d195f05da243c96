"""Writes the lines of the audit into a topic, in a thread of its own, as a client of the node's own cluster.

The node logs in at its own listener for brokers as brokers do. Lines wait in a queue with a bound: if the topic cannot
be written for long, lines are dropped, and the log says so; they are in the logger in any case.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from barnabas.client.errors import ClientError
from barnabas.client.settings import ClientSettings
from barnabas.node.log_limiter import LogLimiter
from barnabas.wire.errors import ErrorCode

log = logging.getLogger("barnabas.audit")

WAITING_MAX = 10_000
RETRY_S = 1.0


class AuditTopic:
    def __init__(self, topic: str, settings: Callable[[], ClientSettings]) -> None:
        """`settings` is asked by the thread, once the node serves."""
        self._topic = topic
        self._settings = settings
        self._lines: queue.Queue[bytes] = queue.Queue(WAITING_MAX)
        self._limiter = LogLimiter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def publish(self, line: bytes) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            if self._limiter.allows("full"):
                log.error("the audit topic %s takes too few lines: the others are in the log only", self._topic)

    def close(self, timeout_s: float = 5.0) -> None:
        """Blocks until what waits is written, or the time is over."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.is_set() or not self._lines.empty():
            try:
                self._write()
                return
            except ClientError as error:
                if self._limiter.allows("failed"):
                    log.warning("the audit's topic %s cannot be written, trying again: %s", self._topic, error)
                if self._stopping.wait(RETRY_S):
                    return

    def _write(self) -> None:
        """Returns when the node stops."""
        from barnabas.client.producer import Producer

        settings = self._settings()
        self._create(settings)
        with Producer(settings) as producer:
            while True:
                try:
                    line = self._lines.get(timeout=0.5)
                except queue.Empty:
                    if self._stopping.is_set():
                        return
                    continue
                producer.send(self._topic, line, callback=self._told)

    def _create(self, settings: ClientSettings) -> None:
        from barnabas.client.cluster import Cluster
        from barnabas.client.errors import Refused
        from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

        with Cluster(settings) as cluster:
            topic = CreatableTopic(name=self._topic, num_partitions=1, replication_factor=-1)
            for answer in cluster.ask_controller(CreateTopicsRequest(topics=[topic])).topics:
                if answer.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    raise Refused(answer.error_code, f"{self._topic} could not be created")

    def _told(self, metadata: object, error: ClientError | None) -> None:
        if error is not None and self._limiter.allows("lost"):
            log.error("could not write an audit line to the topic %s, it is in the log only: %s", self._topic, error)
