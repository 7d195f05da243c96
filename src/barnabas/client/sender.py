"""The producer's thread: it alone talks to brokers, and sleeps until there is something to send or to receive."""

from __future__ import annotations

import logging
import os
import select
import threading
import time

from barnabas.client.accumulator import Accumulator, ProducerBatch
from barnabas.client.cluster import Cluster
from barnabas.client.errors import ClientError, TimedOut
from barnabas.client.producer_settings import ProducerSettings
from barnabas.client.send_core import SendCore
from barnabas.client.transaction import ProducerTransaction

log = logging.getLogger(__name__)


class Sender(SendCore):
    def __init__(
        self,
        cluster: Cluster,
        settings: ProducerSettings,
        accumulator: Accumulator,
        changed: threading.Condition,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        super().__init__(cluster, settings, accumulator, changed, transaction)
        self.asleep = False
        self.sleeps_until = 0.0
        self.closing = False
        self.abandon = False  # with what is not delivered yet
        self.withdrawn: list[ProducerBatch] = []  # their callbacks are still to be told
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller.register(self._wake_read, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="barnabas-producer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def withdraw(self, error: ClientError) -> None:
        """Under the lock: what has not left yet never will."""
        for batch in self._accumulator.withdraw(error):
            self._released(batch)
            self.withdrawn.append(batch)
        self.wake()

    def wake(self) -> None:
        """Under the lock: there is something new to look at."""
        self.dirty = True
        if self.asleep:
            self.asleep = False
            try:
                os.write(self._wake_write, b"\0")
            except (BlockingIOError, OSError):
                pass

    def _run(self) -> None:
        try:
            while self._round():
                pass
            self._give_up(TimedOut("The producer was closed before the record was delivered."), closed=True)
        except ClientError as error:
            self._give_up(error)
        except Exception as error:
            log.exception("the producer's sender thread failed: nothing more is sent")
            self._give_up(ClientError(f"The producer broke: {error!r}."))
        finally:
            self.close_connections()
            self._cluster.close()
            with self._changed:
                self.asleep = False
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._changed.notify_all()

    def _finished(self) -> bool:
        """Under the lock."""
        return self.closing and (self.abandon or not self._accumulator.incomplete)

    def _round(self) -> bool:
        now = time.monotonic()
        with self._changed:
            withdrawn, self.withdrawn = self.withdrawn, []
            finished = self._finished()
        for batch in withdrawn:
            self._tell(batch)
        if finished:
            return False
        if not self.send_ready(now):
            self._wait(now)
            self.receive()
        return True

    def _wait(self, round_began: float) -> None:
        """Until an answer comes, a batch is ready, or a time is over."""
        self._readable = set()
        if self.has_buffered:
            return
        with self._changed:
            until = self.next_event(round_began)
            now = time.monotonic()
            if self.dirty or until <= now or self._finished():
                return
            self.asleep, self.sleeps_until = True, until
        self.poll(until - now)
        self.asleep = False
        if self._wake_read in self._readable:
            try:
                os.read(self._wake_read, 4096)
            except BlockingIOError:
                pass

    def _give_up(self, error: ClientError, *, closed: bool = False) -> None:
        with self._changed:
            if not closed:
                self.error = error
            left = list(self._accumulator.incomplete)
            for batch in left:
                self._accumulator.fail(batch, error)
            self._changed.notify_all()
        for batch in left:
            self._tell(batch)
