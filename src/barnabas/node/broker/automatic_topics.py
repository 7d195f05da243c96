"""Topics that come into being because somebody asks for them, made by the controller as CreateTopics makes them.

A client that asks for a topic is answered when the topic is there, so it need not ask again. Unless the topic was
deleted a moment ago: then whoever asks may want to see that it is gone, and is told so once, as Kafka tells everybody,
while the topic comes into being again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from barnabas.core.controller.automatic import automatic_topic
from barnabas.core.controller.topics import PARTITIONS_PER_REQUEST_MAX
from barnabas.core.metadata.state import MetadataDelta
from barnabas.node.broker.channel import ToController
from barnabas.node.configuration import BrokerConfig
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.turns import in_turns
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

log = logging.getLogger("barnabas.topics")

DELETED_RECENTLY_MS = 10_000
DELETED_MAX = 10_000
FAILURES_MAX = 1_000


class AutomaticTopics:
    def __init__(self, controller: ToController, config: Callable[[], BrokerConfig], clock: Callable[[], int]) -> None:
        self._controller = controller
        self._config = config
        self._clock = clock
        self._limiter = LogLimiter()
        self._deleted: dict[str, int] = {}  # when, the oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        # Of topics created in the background: those on their way, and why others failed, until when that is told.
        self._on_their_way: set[str] = set()
        self._failures: dict[str, tuple[str, int]] = {}

    def apply(self, delta: MetadataDelta) -> None:
        now_ms = self._clock()
        for topic in delta.deleted_topics:
            self._deleted.pop(topic.name, None)
            self._deleted[topic.name] = now_ms
        while self._deleted and (len(self._deleted) > DELETED_MAX or self._is_old(next(iter(self._deleted)), now_ms)):
            del self._deleted[next(iter(self._deleted))]

    def _is_old(self, name: str, now_ms: int) -> bool:
        return now_ms - self._deleted[name] > DELETED_RECENTLY_MS

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def create_for_client(self, names: Iterable[str]) -> None:
        """As `create`, but topics that were deleted a moment ago are not waited for."""
        wanted, now_ms = list(names), self._clock()
        again = {name for name in wanted if name in self._deleted and not self._is_old(name, now_ms)}
        for name in again:
            del self._deleted[name]
        if again:
            task = asyncio.get_running_loop().create_task(self.create(again))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if rest := [name for name in wanted if name not in again]:
            await self.create(rest)

    async def create(self, names: Iterable[str]) -> None:
        """Those that cannot be created stay unknown, and the log says why."""
        value = self._config().value
        wanted = list(names)
        if len(wanted) > PARTITIONS_PER_REQUEST_MAX:
            self._warn(wanted, f"One request can create {PARTITIONS_PER_REQUEST_MAX} partitions at most.")
            return
        request = CreateTopicsRequest(topics=[automatic_topic(name, value) async for name in in_turns(wanted)])
        try:
            results = (await self._controller.request(request)).topics
        except KafkaError as error:
            self._warn([topic.name for topic in request.topics], error.message)
            return
        refused = [each for each in results if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)]
        if refused:
            self._warn([each.name for each in refused], refused[0].error_message)

    def create_in_background(self, topics: Iterable[CreatableTopic], failures_kept_ms: int) -> dict[str, str]:
        """Internal topics of streams groups. Returns why some of them could not be created lately; those are not tried
        again before that is forgotten."""
        now_ms = self._clock()
        self._failures = {name: each for name, each in self._failures.items() if each[1] > now_ms}
        listed = list(topics)
        wanted = [each for each in listed if each.name not in self._failures and each.name not in self._on_their_way]
        if wanted:
            self._on_their_way |= {each.name for each in wanted}
            task = asyncio.get_running_loop().create_task(self._create_internal(wanted, failures_kept_ms))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return {each.name: self._failures[each.name][0] for each in listed if each.name in self._failures}

    async def _create_internal(self, topics: list[CreatableTopic], failures_kept_ms: int) -> None:
        names = [topic.name for topic in topics]
        failed: dict[str, str] = {}
        try:
            for result in (await self._controller.request(CreateTopicsRequest(topics=topics))).topics:
                if result.error_code:
                    failed[result.name] = result.error_message or ErrorCode(result.error_code).name
        except KafkaError as error:
            failed = dict.fromkeys(names, error.message or error.code.name)
        finally:
            self._on_their_way -= set(names)
        if failed:
            self._warn(list(failed), next(iter(failed.values())))
        until_ms = self._clock() + failures_kept_ms
        self._failures |= {name: (why, until_ms) for name, why in list(failed.items())[:FAILURES_MAX]}

    def _warn(self, names: Sequence[str | None], why: str | None) -> None:
        """One line for all names, since the client chooses how many there are."""
        if self._limiter.allows("not created"):
            others = f" and {len(names) - 1} others were" if len(names) > 1 else " was"
            log.warning("Topic '%s'%s not created automatically: %s", names[0], others, why)
