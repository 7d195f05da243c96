"""The registry at work: replays the topic, answers from what it knows, and as the primary writes what is decided.

Runs in one event loop, which owns the state. A change is decided, written, read back and only then answered, so what
was answered can be read. Changes of one subject wait for each other; those of different subjects are under way at once,
but for those that make or end references: nobody refers to what is being deleted.

Where this instance is not the primary, questions about subjects are answered after it has read to the end of the log as
it was when they came, and an unknown id is looked for again after that: what one instance has answered, every other
knows.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from barnabas.client.errors import BrokerUnreachable, ClientError, TimedOut
from barnabas.client.records import ConsumerRecord
from barnabas.client.schemas import ParsedSchema
from barnabas.services.registry import errors
from barnabas.services.registry.ahead import AHEAD, Ahead
from barnabas.services.registry.decide import Pending, RegistryDecision, Rules, canonicalized, compared_with
from barnabas.services.registry.election import Identity
from barnabas.services.registry.elector import Elector
from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.forwarding import FORWARDED, NotPrimary, forward
from barnabas.services.registry.levels import check
from barnabas.services.registry.library import Library
from barnabas.services.registry.records import (
    Key,
    Record,
    StoredSchema,
    UnreadableRecord,
    decode_key,
    decode_value,
)
from barnabas.services.registry.requests import SchemaRequest
from barnabas.services.registry.settings import RegistrySettings
from barnabas.services.registry.state import State
from barnabas.services.registry.topic import RecordTooLarge, SchemaTopic
from barnabas.web.metrics import HttpMetrics, Sample

if TYPE_CHECKING:
    from barnabas.services.registry.http import Call

log = logging.getLogger(__name__)
T = TypeVar("T")

ATTEMPTS_MAX = 3  # to get an id that nobody else took
REVOKED_WITHIN_S = 5.0
ELECTION_GRACE_MS = 5_000
CATCH_UP_PAUSE_S = 0.2
OPEN_PAUSE_S = 0.5
AGREE_PAUSE_S = 0.1
LARGE_SCHEMA = 32 * 1024  # characters: parsing fewer takes a few milliseconds
PARSED_AT_A_TIME = 20  # earlier schemas, before others have a turn
COMPARED_AHEAD_MAX = 200  # earlier schemas, for all of them are in memory; the rest is left to the decision
FORWARDED_MAX = 64  # changes that wait for the primary's answer; more wait for one of these
PRIMARY_LOOK_S = 0.5  # how often somebody who waits for the primary looks whether it still is


class Service:
    def __init__(self, settings: RegistrySettings, port: int = 0) -> None:
        self.settings = settings
        self.port = port
        self.rules = Rules(settings.level, settings.mode_mutable, settings.validate_new, settings.validate_fields)
        self.state = State()
        self.library = Library(self.state, strict_references=settings.strict_references)
        self.pending = Pending()
        self.topic = SchemaTopic(settings)
        self.position = 0
        self._locks: dict[str | None, SubjectLock] = {}
        self._references = asyncio.Lock()  # taken behind that of a subject, never before it
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._catching_up: asyncio.Task[bool] | None = None
        self.reachable = True  # otherwise questions are answered from what is known, and Kafka is tried meanwhile
        self.identity = Identity(settings.advertised_host, settings.advertised_port or port, settings.eligible)
        self.primary: Identity | None = None
        self._ready = False  # as the primary: everything is replayed, what was refused is undone
        self._writing = 0
        self._changing: set[Key] = set()  # keys of records that are being written for requests
        self._undoing: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._elector: Elector | None = None
        self._large = asyncio.Lock()
        self._thinker = ThreadPoolExecutor(1, "registry-schemas")  # parses and compares
        self._asker = ThreadPoolExecutor(1, "registry-end")  # asks for the end of the topic
        self._forwarder = ThreadPoolExecutor(FORWARDED_MAX, "registry-forward")
        self.metrics = HttpMetrics("registry", self._gauges)

    def _gauges(self) -> list[Sample]:
        schemas = sum(map(len, self.state.ids.values()))
        return [
            ("barnabas_registry_schemas", "Schemas that have an id, in all contexts.", schemas),
            ("barnabas_registry_primary", "1 on the instance that writes.", float(self.is_primary)),
            ("barnabas_registry_position", "The offset of _schemas up to which this instance has read.", self.position),
        ]

    def load(self) -> None:
        """Blocking: before the first request is served."""
        self._open()
        gc.disable()  # nothing of what is loaded is garbage
        for record in self.topic.read_to_end():
            self._replay(record)
        self.position = self.topic.position
        gc.enable()
        gc.freeze()

    def _open(self) -> None:
        """Waits for a cluster that starts at the same time."""
        until = time.monotonic() + self.settings.init_timeout_ms / 1000
        while True:
            try:
                self.topic.open()
                return
            except BrokerUnreachable as error:
                if time.monotonic() > until:
                    raise
                log.warning("no broker answers yet, trying again in %s s: %s", OPEN_PAUSE_S, error)
                time.sleep(OPEN_PAUSE_S)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def on_records(records: Sequence[ConsumerRecord], position: int) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._take, records, position)

        await asyncio.to_thread(self.topic.start, on_records)

        def on_assigned(primary: Identity | None) -> None:
            asyncio.run_coroutine_threadsafe(self._assign(primary), loop)

        def on_revoked() -> None:
            try:
                asyncio.run_coroutine_threadsafe(self._revoke(), loop).result(REVOKED_WITHIN_S)
            except (TimeoutError, RuntimeError, asyncio.CancelledError):
                log.warning("joining the group anew although writes did not end within %s s", REVOKED_WITHIN_S)

        self._elector = Elector(self.settings, self.identity, on_assigned, on_revoked)
        self._elector.start()

    async def stop(self) -> None:
        if self._elector is not None:
            await asyncio.to_thread(self._elector.close)
        await asyncio.to_thread(self.topic.close)
        for executor in (self._thinker, self._asker, self._forwarder):
            executor.shutdown(wait=False, cancel_futures=True)

    @property
    def is_primary(self) -> bool:
        """Whether this instance may write now."""
        certain = self._elector is not None and time.monotonic() < self._elector.lease_until
        return self._ready and self.primary == self.identity and certain

    async def _assign(self, primary: Identity | None) -> None:
        if primary != self.primary:
            log.info("the primary is %s", "nobody" if primary is None else primary.url)
        self.primary, self._ready = primary, False
        if primary == self.identity:
            while not await self._catch_up():
                await asyncio.sleep(CATCH_UP_PAUSE_S)
                if self.primary != self.identity:
                    return
            await self.undo(list(self.state.refused))
            self._ready = True
        await self._tell()

    async def _revoke(self) -> None:
        self.primary, self._ready = None, False
        async with self._changed:
            await self._changed.wait_for(lambda: not self._writing)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _primary_known(self) -> None:
        """Waits through an election: that of an instance that was killed takes its session timeout."""

        until = time.monotonic() + (self.settings.session_timeout_ms + ELECTION_GRACE_MS) / 1000
        while not (self.is_primary or (self.primary is not None and self.primary != self.identity)):
            if time.monotonic() > until:
                raise errors.unknown_primary()
            # A heartbeat that renews the lease tells nobody.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGREE_PAUSE_S), self._changed:
                    await self._changed.wait()

    async def before_read(self) -> None:
        """What another instance has answered is known here before a question about it is."""
        if not self.is_primary:
            await self.catch_up()

    def _take(self, records: Sequence[ConsumerRecord], position: int) -> None:
        for record in records:
            self._replay(record)
        self.position = position
        if self.state.refused and self.is_primary and (self._undoing is None or self._undoing.done()):
            self._undoing = asyncio.ensure_future(self._undo_late())
        ready = [waiter for at, waiter in self._waiting if at <= position]
        self._waiting = [(at, waiter) for at, waiter in self._waiting if at > position and not waiter.done()]
        for waiter in ready:
            if not waiter.done():
                waiter.set_result(None)

    def _replay(self, record: ConsumerRecord) -> None:
        try:
            key = decode_key(record.key)
            if key is not None:
                self.state.replay(key, decode_value(record.value), record.timestamp)
        except UnreadableRecord as error:
            log.warning("the record at offset %s of %s is skipped: %s", record.offset, record.topic, error)

    async def reach(self, position: int) -> None:
        """Waits until everything before this offset is replayed."""
        if self.position >= position:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((position, waiter))
        async with asyncio.timeout(self.settings.timeout_ms / 1000):
            await waiter

    async def catch_up(self, *, patient: bool = False) -> None:
        """Waits until what is in the log now is replayed. Callers at the same time share the question. Where Kafka did
        not answer the last one, only the patient wait for it until it does."""
        previous = self._catching_up
        if not self.reachable and not patient:
            if previous is None or previous.done():
                self._catching_up = asyncio.ensure_future(self._catch_up())
            return
        if previous is not None and not previous.done():
            await asyncio.wait([previous])  # it may have asked before the caller's write was there
        if self._catching_up is previous or self._catching_up is None:
            self._catching_up = asyncio.ensure_future(self._catch_up())
        await asyncio.shield(self._catching_up)

    async def _catch_up(self) -> bool:
        try:
            await self.reach(await self._in_thread(self._asker, self.topic.end_offset))
        except (ClientError, TimeoutError) as error:
            if self.reachable:
                log.warning(
                    "the end of %s was not reached, answering from what is known: %s", self.settings.topic, error
                )
            self.reachable = False
            return False
        self.reachable = True
        return True

    @asynccontextmanager
    async def prepared(self, subject: str, request: SchemaRequest) -> AsyncIterator[None]:
        """Keeps what is worked out ahead for a request. Parses a large schema in a thread: others are served
        meanwhile."""
        is_large = len(request.text) >= LARGE_SCHEMA
        async with self._large_turn() if is_large else contextlib.nullcontext():
            token = AHEAD.set(Ahead())
            try:
                for is_new in (False, True) if is_large else ():
                    references = self.library.pinned(subject, request.references)
                    prepare = self.library.preparation(subject, request.type, request.text, references, is_new=is_new)
                    await self._in_thread(self._thinker, prepare)
                yield
            finally:
                AHEAD.reset(token)

    @asynccontextmanager
    async def _large_turn(self) -> AsyncIterator[None]:
        """One large schema at a time: parsed it takes many times its size. Nobody waits for this longer than for a
        primary."""
        try:
            async with asyncio.timeout((self.settings.session_timeout_ms + ELECTION_GRACE_MS) / 1000):
                await self._large.acquire()
        except TimeoutError:
            raise errors.timed_out("Register operation timed out") from None
        try:
            yield
        finally:
            self._large.release()

    async def compare_ahead(
        self, subject: str, request: SchemaRequest, normalize: bool, living: Sequence[StoredSchema]
    ) -> None:
        """Within `prepared`: compares a schema with earlier ones in a thread. What is wrong is told by the decision."""
        config = self.state.config_in_scope(subject)
        level = self.rules.level_for(config)
        earlier = compared_with(level, config, request, list(living))[:COMPARED_AHEAD_MAX]
        if not earlier or not request.text.strip():
            return
        try:
            parsed, request = canonicalized(self.library, self.rules, config, subject, request, normalize)
            loaded = []
            for each in earlier:
                loaded.append((each.version, partial(_given, self.library.parsed(each))))
                if len(loaded) % PARSED_AT_A_TIME == 0:
                    await asyncio.sleep(0)
        except RegistryError:
            return
        await self._in_thread(self._thinker, lambda: check(level, parsed, loaded))

    async def _in_thread(self, executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Threads for one kind of work: a primary that does not answer keeps nobody from reading the topic."""
        inside = copy_context()
        return await asyncio.get_running_loop().run_in_executor(executor, lambda: inside.run(work))

    async def change(
        self,
        subject: str | None,
        call: Call,
        decision: Callable[[], RegistryDecision],
        what: str,
        *,
        concerns_references: bool = False,
    ) -> Any:
        """Decides, writes and reads back; changes of one subject wait for each other, and so do those that make or
        end references. Raises ForwardedAnswer where another instance is the primary."""
        until = time.monotonic() + (self.settings.session_timeout_ms + ELECTION_GRACE_MS) / 1000
        while True:
            await self._primary_known()
            try:
                if not self.is_primary:
                    await self._forward(call, what)
                return await self._change_here(subject, decision, what, concerns_references)
            except NotPrimary as error:
                # The instances do not agree yet. What is passed on is not passed on again.
                if call.headers.get(FORWARDED) or time.monotonic() > until:
                    raise error.answer from None
                await asyncio.sleep(AGREE_PAUSE_S)

    async def _change_here(
        self, subject: str | None, decision: Callable[[], RegistryDecision], what: str, concerns_references: bool
    ) -> Any:
        lock = self._locks.setdefault(subject, SubjectLock())
        lock.users += 1
        try:
            async with lock.lock, self._references if concerns_references else contextlib.nullcontext():
                return await self._change(decision, what)
        finally:
            lock.users -= 1
            if not lock.users:
                self._locks.pop(subject, None)

    async def _forward(self, call: Call, what: str) -> NoReturn:
        primary = self.primary
        if call.headers.get(FORWARDED) or primary is None or primary == self.identity:
            raise NotPrimary(errors.unknown_primary())
        kind = "application/vnd.schemaregistry.v1+json"
        pass_on = partial(
            forward,
            primary,
            call.method,
            call.target,
            call.body,
            kind,
            what,
            authorization=call.headers.get("authorization"),
            tls=self.settings.security.client_context(),
        )
        asked = asyncio.ensure_future(self._in_thread(self._forwarder, pass_on))
        while not asked.done():
            await asyncio.wait([asked], timeout=PRIMARY_LOOK_S)
            if not asked.done() and self.primary != primary:
                asked.add_done_callback(asyncio.Future.exception)  # nobody wants to know any more
                answer = errors.forwarding_failed(f"{primary.url} is not the leader any more and has not answered")
                raise answer if call.method == "DELETE" else NotPrimary(answer)  # others may be done twice
        passed = asked.result()
        try:
            if passed.offset is None:
                await self.catch_up()
            else:
                await self.reach(passed.offset)
        except TimeoutError:
            log.warning("%s was not read to offset %s in time", self.settings.topic, passed.offset)
        raise passed.answer

    async def _change(self, decision: Callable[[], RegistryDecision], what: str) -> Any:
        for _ in range(ATTEMPTS_MAX):
            if not self.is_primary:
                raise NotPrimary(errors.unknown_primary())
            decided = decision()
            if not decided.records:
                return decided.answer
            keys = [record.key for record in decided.records]
            self._changing.update(keys)
            try:
                await self.write(decided.records, what)
                refused = [key for key in keys if key in self.state.refused]
            finally:
                self._settle(decided)
                self._changing.difference_update(keys)
            if not refused:
                return decided.answer
            await self.undo(refused)
        raise errors.store_failed("Error while registering the schema due to generating an ID that is already in use.")

    def _settle(self, decided: RegistryDecision) -> None:
        schema = decided.schema
        if schema is not None:
            for key in [key for key, taken in self.pending.ids.items() if taken == schema.id and key[1] == schema.guid]:
                del self.pending.ids[key]

    async def _undo_late(self) -> None:
        """Records of a former primary that came behind those of this one. A record of a change that is under way is its
        own matter."""
        try:
            while self.is_primary and (late := [key for key in self.state.refused if key not in self._changing]):
                await self.undo(late)
        except RegistryError as error:
            log.warning("a record of a former primary is not undone yet: %s", error.message)

    async def undo(self, keys: Sequence[Key]) -> None:
        """Takes records back that gave a taken id to another schema."""
        for key in keys:
            kept = self.state.refused.get(key)
            log.warning("%s version %s is undone: its id belongs to another schema", key.subject, key.version)
            await self.write([kept.record(deleted=kept.deleted) if kept else Record(key, None)], "Register")

    async def write(self, records: Sequence[Record], what: str) -> None:
        self._writing += 1
        try:
            async with asyncio.timeout(self.settings.timeout_ms / 1000):
                offset = await self.topic.append(records)
            await self.reach(offset + 1)
        except RecordTooLarge:
            raise errors.schema_too_large() from None
        except (TimeoutError, TimedOut):
            raise errors.timed_out(f"{what} operation timed out") from None
        except ClientError as error:
            log.error("%s could not be written: %s", self.settings.topic, error)
            raise errors.store_failed(f"{what} operation failed while writing to the Kafka store") from None
        finally:
            self._writing -= 1
            if not self._writing and self.primary is None:
                await self._tell()


def _given(schema: ParsedSchema) -> ParsedSchema:
    return schema


class SubjectLock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
