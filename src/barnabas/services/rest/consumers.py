"""Consumer instances at work: any proxy answers for any of them.

A subscribed instance is a static member of its group: its name is the member's `group.instance.id`. A proxy that is
asked for an instance which another one reads for joins the group under that name. The coordinator hands it the member's
partitions without a rebalance and fences the other proxy. It goes on where the instance's record says, or at the
committed offsets if the group has been rebalanced since.

Between requests the proxy that reads for an instance takes part in rebalances, so that no idle instance holds up its
group. An instance that nobody asks for leaves the group after `consumer.instance.timeout.ms`. If its proxy is gone, the
group's session timeout frees its partitions, and another proxy forgets the record later.

Everything here blocks, and runs in the proxy's threads.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import re2

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import AssignedConsumer, ConsumerSettings, GroupConsumer, TopicPattern
from barnabas.client.errors import ClientError, InvalidSetting, Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.records import ConsumerRecord
from barnabas.client.serdes import Deserializer
from barnabas.client.settings import ClientSettings
from barnabas.services.rest import errors
from barnabas.services.rest.formats import SCHEMA_TYPES
from barnabas.services.rest.instances import Instance, InstanceTopic, Name
from barnabas.services.rest.kafka import Kafka

log = logging.getLogger(__name__)

TICK_S = 0.5
KEEP_UP_MS = 50
SESSION_TIMEOUT_MS = "10000"
JOIN_WITHIN_S = 5.0
BUSY_S = 60.0
FORGOTTEN_AFTER = 2  # instance timeouts, of an instance whose proxy is gone


class Held:
    """An instance that this proxy reads for. One request at a time has it."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.consumer: GroupConsumer | AssignedConsumer | None = None
        self.lock = threading.Lock()
        self.used_at = time.monotonic()
        self.waiting: deque[ConsumerRecord] = deque()  # read, and left over by a request
        self.keys: Deserializer | None = None
        self.values: Deserializer | None = None

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset that the client will see."""
        if self.consumer is None:
            return self.instance.offsets()
        found = dict(self.consumer.positions)
        for record in reversed(self.waiting):
            found[record.topic, record.partition] = record.offset
        return found

    @property
    def generation(self) -> int:
        return self.consumer.generation_id if isinstance(self.consumer, GroupConsumer) else -1

    def close(self) -> None:
        """The member keeps its place in the group."""
        consumer, self.consumer = self.consumer, None
        self.waiting.clear()
        if consumer is not None:
            try:
                consumer.close()
            except ClientError as error:
                log.info("the consumer of %s/%s was closed: %s", self.instance.group, self.instance.name, error)


class Consumers:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._settings = kafka.settings
        self._topic = InstanceTopic(kafka.settings)
        self._id = str(uuid.uuid4())
        self._held: dict[Name, Held] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._ticker: threading.Thread | None = None

    def create(self, instance: Instance) -> None:
        check_settings(self._settings.kafka, instance)
        if self._topic.find(instance.group, instance.name) is not None:
            raise errors.instance_exists()
        made = replace(instance, holder=self._id, used_ms=now_ms(), owner=self._caller_name())
        self._topic.write(made)
        with self._lock:
            self._held[instance.group, instance.name] = Held(made)
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tick, name="rest-consumers", daemon=True)
                self._ticker.start()

    def _caller_name(self) -> str | None:
        caller = self._kafka.caller
        return None if caller is None else caller.name

    def delete(self, group: str, name: str) -> None:
        with self.holding(group, name) as held:
            self._end(held)

    @contextmanager
    def holding(self, group: str, name: str) -> Iterator[Held]:
        """The instance, taken over from another proxy if need be."""
        instance = self._topic.find(group, name)
        if instance is not None and instance.owner != self._caller_name():
            raise errors.instance_not_found()  # it reads what its owner may read
        if instance is None:
            self._let_go((group, name))
            raise errors.instance_not_found()
        with self._lock:
            held = self._held.setdefault((group, name), Held(instance))
            if self._ticker is None:
                self._ticker = threading.Thread(target=self._tick, name="rest-consumers", daemon=True)
                self._ticker.start()
        if not held.lock.acquire(timeout=BUSY_S):
            raise errors.illegal_state("another request for this consumer instance takes long")
        try:
            if instance.holder != self._id:
                held.close()
                held.instance = replace(instance, holder=self._id, used_ms=now_ms())
                self._topic.write(held.instance)
            if held.consumer is None:
                self._open(held)
            held.used_at = time.monotonic()
            yield held
            held.used_at = time.monotonic()
        except Refused as error:
            if error.code in errors.FENCED:
                held.close()  # the next request joins anew
            raise
        finally:
            held.lock.release()

    def save(self, held: Held, **changes: object) -> None:
        """What another proxy has to know if it is asked next."""
        changed = replace(held.instance, **changes) if changes else held.instance  # type: ignore[arg-type]
        held.instance = changed.at(held.positions(), held.generation, now_ms())
        self._topic.write(held.instance)

    def subscribe(self, held: Held, topics: list[str], pattern: str | None) -> None:
        if held.instance.partitions:
            raise errors.already_subscribed()
        held.close()
        held.instance = replace(held.instance, topics=topics, pattern=pattern, positions=[], generation=-1)
        if held.instance.is_subscribed:
            self._open(held)
        else:
            self._leave(held.instance)
        self.save(held)

    def assign(self, held: Held, partitions: list[TopicPartition]) -> None:
        if held.instance.is_subscribed:
            raise errors.already_subscribed()
        held.close()
        listed = [[topic, number] for topic, number in partitions]
        held.instance = replace(held.instance, partitions=listed, positions=[])
        self._open(held)
        self.save(held)

    def _open(self, held: Held) -> None:
        instance = held.instance
        settings, chosen = consumer_settings(self._kafka.client_settings(), self._settings.consumer, instance)
        if instance.is_subscribed:
            pattern = None if instance.pattern is None else topic_pattern(instance.pattern)
            group = GroupConsumer(settings, chosen, topics=instance.topics, pattern=pattern)
            held.consumer = group
            self._restore(held, group)
        elif instance.partitions:
            held.consumer = AssignedConsumer(settings, chosen)
            places = [(topic, number) for topic, number in instance.partitions]
            starts = dict.fromkeys(places, -2 if chosen.offset_reset == "earliest" else -1)
            committed = held.consumer.committed(places)
            starts |= {place: each.offset for place, each in committed.items()}
            starts |= {place: offset for place, offset in instance.offsets().items() if place in starts}
            held.consumer.assign(starts)

    def _restore(self, held: Held, consumer: GroupConsumer) -> None:
        """Where the former proxy was, if the group has not been rebalanced since."""
        saved = held.instance.offsets()
        if not saved:
            return
        until = time.monotonic() + JOIN_WITHIN_S
        while not consumer.assignment and time.monotonic() < until:
            consumer.keep_up(KEEP_UP_MS)
        if consumer.generation_id == held.instance.generation:
            for (topic, number), offset in saved.items():
                if (topic, number) in consumer.assignment:
                    consumer.seek(topic, number, offset)

    def deserializers(self, held: Held) -> tuple[Deserializer | None, Deserializer | None]:
        if held.instance.format in SCHEMA_TYPES and held.values is None:
            registry = self._kafka.registry
            held.keys, held.values = Deserializer(registry, is_key=True), Deserializer(registry)
        return held.keys, held.values

    def _end(self, held: Held) -> None:
        instance = held.instance
        held.close()
        if instance.is_subscribed:
            self._leave(instance)
        self._topic.forget(instance.group, instance.name)
        with self._lock:
            self._held.pop((instance.group, instance.name), None)

    def _leave(self, instance: Instance) -> None:
        from barnabas.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

        member = MemberIdentity(member_id="", group_instance_id=instance.name)
        request = LeaveGroupRequest(group_id=instance.group, members=[member])
        try:
            with Cluster(self._kafka.client_settings()) as cluster:
                cluster.ask_coordinator("group", instance.group, request, within_ms=5_000)
        except ClientError as error:
            log.info("could not tell group %s that consumer %s leaves: %s", instance.group, instance.name, error)

    def _let_go(self, name: Name) -> None:
        with self._lock:
            held = self._held.pop(name, None)
        if held is not None:
            with held.lock:
                held.close()

    def _tick(self) -> None:
        """Takes part in rebalances for instances that nobody asks for, and ends those that nobody asks for long."""
        swept_at = time.monotonic()
        while not self._closing.wait(TICK_S):
            with self._lock:
                held = list(self._held.values())
            for each in held:
                self._keep_up(each)
            if time.monotonic() - swept_at > self._settings.instance_timeout_ms / 2000:
                swept_at = time.monotonic()
                self._sweep()

    def _keep_up(self, held: Held) -> None:
        if not held.lock.acquire(blocking=False):
            return  # a request is at it
        try:
            idle_ms = (time.monotonic() - held.used_at) * 1000
            if idle_ms > self._settings.instance_timeout_ms:
                self._expire(held)
            elif isinstance(held.consumer, GroupConsumer):
                held.consumer.keep_up(KEEP_UP_MS if held.consumer.is_rebalancing else 0)
        except Refused as error:
            log.info("%s/%s is read by another proxy: %s", held.instance.group, held.instance.name, error)
            held.close()
        except ClientError as error:
            log.info("a heartbeat of consumer %s/%s failed: %s", held.instance.group, held.instance.name, error)
        finally:
            held.lock.release()

    def _expire(self, held: Held) -> None:
        instance = self._topic.find(held.instance.group, held.instance.name)
        if instance is not None and instance.holder == self._id:
            log.info(
                "consumer %s/%s is removed: it was not used for consumer.instance.timeout.ms",
                instance.group,
                instance.name,
            )
            self._end(held)
            return
        held.close()
        with self._lock:
            self._held.pop((held.instance.group, held.instance.name), None)

    def _sweep(self) -> None:
        """Forgets instances whose proxy is gone; marks those that are in use here."""
        try:
            self._topic.catch_up()
            oldest_ms = now_ms() - FORGOTTEN_AFTER * self._settings.instance_timeout_ms
            for instance in self._topic.all():
                held = self._held.get((instance.group, instance.name))
                if instance.holder != self._id and instance.used_ms < oldest_ms:
                    self._topic.forget(instance.group, instance.name)
                elif held is not None and instance.holder == self._id and held.lock.acquire(blocking=False):
                    try:
                        self.save(held)
                    finally:
                        held.lock.release()
        except ClientError as error:
            log.warning("could not look for unused consumer instances, trying again: %s", error)

    def close(self) -> None:
        """Members keep their places: another proxy, or this one after a restart, goes on."""
        self._closing.set()
        if self._ticker is not None:
            self._ticker.join(5)
        with self._lock:
            held, self._held = list(self._held.values()), {}
        for each in held:
            each.close()
        self._topic.close()

    def __len__(self) -> int:
        return len(self._held)


def now_ms() -> int:
    return int(time.time() * 1000)


def consumer_settings(
    kafka: ClientSettings, shared: Mapping[str, str], instance: Instance
) -> tuple[ClientSettings, ConsumerSettings]:
    properties = {
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        **kafka.properties,
        **shared,
        **instance.properties,
        "group.id": instance.group,
        "partition.assignment.strategy": "range",
        "enable.auto.commit": "false",  # what a client has got is committed, not what was read for it
    }
    if instance.is_subscribed:
        properties["group.instance.id"] = instance.name
    settings = replace(kafka, client_id=f"{kafka.client_id}-{instance.name}")
    return settings, ConsumerSettings.from_properties(properties)


def topic_pattern(text: str) -> TopicPattern:
    """By RE2: strangers write these, and Python's own engine can be made to stand still for years."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: TopicPattern = re2.compile(text, options)
    except re2.error as error:
        raise errors.unprocessable(f"topic_pattern is not a regular expression of RE2: {error}") from None
    return compiled


def check_settings(kafka: ClientSettings, instance: Instance) -> None:
    try:
        consumer_settings(kafka, {}, instance)
    except InvalidSetting as error:
        raise errors.invalid_consumer(str(error)) from None
