"""Runs a replica of the quorum on an event loop: `core/raft` with sockets, a disk and a clock.

Theory. After every event the driver takes what the replica wants done (`Ready`) and does it at once, in the order of
`core/raft`'s opening: first `quorum-state` is on disk, then messages and answers leave. Only the writing of
`quorum-state` holds the rest up; messages, flushes and freezes run beside it, and their ends are told to the replica.
What is slow (fsync) runs on the flusher's thread. Whatever fails on the disk ends the driver: `on_failed` is told,
nothing is answered any more, and nothing is tried again.

A peer has two connections: fetches, which the leader parks, and all else, which must not wait behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, Protocol, cast

from barnabas.client.errors import ClientError, ConnectionRefused, UnsupportedByBroker
from barnabas.client.peer import Peer, PeerSettings
from barnabas.core.raft import (
    Answered,
    Asked,
    Failed,
    Flush,
    LeaderAndEpoch,
    NotLeader,
    QuorumState,
    Raft,
    Ready,
    Send,
    SnapshotId,
    fit_version,
)
from barnabas.core.raft.state import NEVER_MS
from barnabas.node.log_limiter import LogLimiter
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.wire.primitives import EncodeError
from barnabas.wire.schema import Request, Response

log = logging.getLogger(__name__)

# The last that names the replica in another field than those after it.
OLDER_FETCH_VERSION = 14
# Requests that never make the replica append.
FETCHES = (FetchRequest, FetchSnapshotRequest, DescribeQuorumRequest)


class QuorumDisk(Protocol):
    """What must not be lost. `write_quorum_state` may run on another thread than the loop's."""

    def write_quorum_state(self, state: QuorumState) -> None: ...

    def prepare_flush(self) -> Callable[[], object]:
        """On the loop; what it returns runs on the flusher's thread."""
        ...

    def flushed(self) -> None:
        """On the loop, after it."""
        ...

    def prepare_freeze(self, snapshot_id: SnapshotId) -> Callable[[], object]:
        """On the loop; what it returns runs on the flusher's thread. The same snapshot may be begun anew meanwhile."""
        ...


class RaftDriver:
    def __init__(
        self, raft: Raft, disk: QuorumDisk, flusher: Executor, clock: Callable[[], int], peers: PeerSettings
    ) -> None:
        """`clock` gives milliseconds since 1970 that never go back."""
        self.raft = raft
        self.failure: BaseException | None = None
        self.on_failed: Callable[[BaseException], None] | None = None
        self.on_leader_change: Callable[[LeaderAndEpoch], None] | None = None
        self.on_commit: Callable[[int], None] | None = None
        # Called before an event that may make the replica append by itself, and after each flush.
        self.before_event: Callable[[], None] | None = None
        self.on_flushed: Callable[[], None] | None = None
        self.is_flushing = False
        self._disk = disk
        self._flusher = flusher
        self._clock = clock
        self._peer_settings = peers
        self._peers: dict[tuple[str, int, bool], Peer] = {}
        self._answers: dict[int, asyncio.Future[Response]] = {}
        self._next_request_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_busy = True  # until `start`; while `quorum-state` is written, and while a Ready is being done
        self._stopped = asyncio.Event()
        self._limiter = LogLimiter()

    def start(self) -> None:
        self._is_busy = False
        self._advance()

    @property
    def is_running(self) -> bool:
        return self.failure is None and not self._stopped.is_set()

    async def shut_down(self, timeout_ms: int) -> None:
        """Hands the lead over, if there is somebody to take it, and stops."""
        if self.is_running:
            self._tell(lambda: self.raft.shut_down(timeout_ms, self._clock()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_ms / 1000 + 1):
                    await self._stopped.wait()
        await self.stop()

    async def stop(self) -> None:
        """At once."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._refuse_waiting()
        await asyncio.gather(*(peer.close() for peer in self._peers.values()), return_exceptions=True)

    async def ask(self, body: Request, version: int, listener: str) -> Response:
        """The answer to a request of a peer; may be long in coming."""
        if not self.is_running:
            raise _not_running()
        self._next_request_id += 1
        request_id = self._next_request_id
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = future
        asked = Asked(request_id, version, listener, body)
        self._tell(lambda: self.raft.step(asked, self._clock()), may_append=not isinstance(body, FETCHES))
        try:
            return await future
        finally:
            self._answers.pop(request_id, None)

    def append(self, epoch: int, values: Sequence[bytes], *, quietly: bool = False) -> int:
        """The offset of the last record; NOT_CONTROLLER if this node does not lead that epoch."""
        try:
            offset = self.raft.append(epoch, values, self._clock(), quietly=quietly)
        except NotLeader as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        self._advance()
        return offset

    def resign(self, epoch: int) -> None:
        self._tell(lambda: self.raft.resign(epoch, self._clock()))

    def upgrade(self, epoch: int, kraft_version: int, *, validate_only: bool) -> int | None:
        """Raises UpgradeRefused."""
        if self.before_event is not None:
            self.before_event()
        try:
            offset = self.raft.upgrade(epoch, kraft_version, self._clock(), validate_only=validate_only)
        except NotLeader as error:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error
        self._advance()
        return offset

    def fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
            is_known = isinstance(error, OSError)
            log.error("The quorum's replica has failed: %s", error, exc_info=None if is_known else error)
            if self._timer is not None:
                self._timer.cancel()
            self._refuse_waiting()
            if self.on_failed is not None:
                self.on_failed(error)

    # Inside.

    def _refuse_waiting(self) -> None:
        """Parked fetches and changes of voters: nobody is left to answer them."""
        for future in self._answers.values():
            if not future.done():
                future.set_exception(_not_running())

    def _tell(self, event: Callable[[], object], *, may_append: bool = True) -> None:
        """The replica hears of something; if that breaks it, the driver has failed."""
        if self.failure is not None:
            return
        try:
            if may_append and self.before_event is not None:
                self.before_event()
            event()
        except Exception as error:
            self.fail(error)
        self._advance()

    def _advance(self) -> None:
        """Does what the replica wants done, and waits for its deadline."""
        if self._is_busy:
            return  # Whoever is at it goes on until there is nothing left.
        self._is_busy = True
        try:
            while self.is_running:
                ready = self.raft.ready()
                if ready is None:
                    break
                if ready.quorum_state is not None:
                    self._persist(ready, ready.quorum_state)
                    return
                self._do(ready)
        except Exception as error:
            self.fail(error)
        self._is_busy = False
        self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_running and self.raft.deadline_ms < NEVER_MS:
            pause_s = max(self.raft.deadline_ms - self._clock(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(min(pause_s, 3600), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._tell(lambda: self.raft.tick(self._clock()))

    def _persist(self, ready: Ready, state: QuorumState) -> None:
        """`quorum-state` first, then the rest of it."""
        written = asyncio.get_running_loop().run_in_executor(self._flusher, self._disk.write_quorum_state, state)
        written.add_done_callback(partial(self._persisted, ready))

    def _persisted(self, ready: Ready, written: asyncio.Future[None]) -> None:
        if written.cancelled() or not self.is_running:
            return
        error = written.exception()
        try:
            if error is not None:
                raise error
            self._do(ready)
        except Exception as failure:
            self.fail(failure)
        self._is_busy = False
        self._advance()

    def _do(self, ready: Ready) -> None:
        for note in ready.notes:
            if self._limiter.allows(note):
                log.warning("quorum: %s", note)
        for send in ready.messages:
            self._start(self._send(send))
        for answer in ready.answers:
            future = self._answers.get(answer.request_id)
            if future is not None and not future.done():
                future.set_result(answer.body)
        if ready.flush is not None:
            self.is_flushing = True
            self._start(self._flush(ready.flush))
        if ready.freeze is not None:
            self._start(self._freeze(ready.freeze, self._disk.prepare_freeze(ready.freeze)))
        if ready.leader is not None and self.on_leader_change is not None:
            self.on_leader_change(ready.leader)
        if ready.high_watermark is not None and self.on_commit is not None:
            self.on_commit(ready.high_watermark)
        if ready.stopped:
            self._stopped.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_thread(self, work: Callable[..., object], *arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._flusher, work, *arguments)

    async def _flush(self, flush: Flush) -> None:
        try:
            await self._in_thread(self._disk.prepare_flush())
            self._disk.flushed()
        except Exception as error:
            self.fail(error)
            return
        finally:
            self.is_flushing = False
        self._tell(lambda: self.raft.flushed(flush, self._clock()), may_append=False)
        if self.on_flushed is not None and self.is_running:
            self.on_flushed()

    async def _freeze(self, snapshot_id: SnapshotId, freeze: Callable[[], object]) -> None:
        try:
            await self._in_thread(freeze)
        except Exception as error:
            self.fail(error)
            return
        self._tell(lambda: self.raft.snapshot_frozen(snapshot_id, self._clock()))

    async def _send(self, send: Send) -> None:
        try:
            body = await self._ask_peer(send)
        except (UnsupportedByBroker, EncodeError):
            self._tell(
                lambda: self.raft.step(Failed(send.correlation_id, ErrorCode.UNSUPPORTED_VERSION), self._clock())
            )
        except ClientError as error:
            log.debug("node %d cannot be asked: %s", send.to.id, error)
            failed = Failed(send.correlation_id, is_refused=isinstance(error, ConnectionRefused))
            self._tell(lambda: self.raft.step(failed, self._clock()))
        else:
            self._tell(lambda: self.raft.step(Answered(send.correlation_id, body), self._clock()))

    async def _ask_peer(self, send: Send) -> Response:
        is_fetch = isinstance(send.body, FetchRequest | FetchSnapshotRequest)
        peer = self._peer(send.to.host, send.to.port, is_fetch)
        try:
            return cast("Response", await peer.send(send.body))
        except EncodeError:
            older = fit_version(send.body, OLDER_FETCH_VERSION)
            if older is None or older is send.body:
                raise
            return cast("Response", await peer.send(older))

    def _peer(self, host: str, port: int, is_fetch: bool) -> Peer:
        key = (host, port, is_fetch)
        if key not in self._peers:
            self._peers[key] = Peer((host, port), self._peer_settings)
        return self._peers[key]


def _not_running() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The quorum's replica is not running.")
