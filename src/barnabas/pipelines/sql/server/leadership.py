"""Which server of a service runs which persistent queries: a query belongs to a slot, and slots are partitions of a
topic that the group of all servers divides among its members.

    joining --assigned slots--> active --all taken away, or lost--> joining
       |                          ^
       +--not assigned--> standby --state elsewhere--> apart

Assignment is sticky: whoever has a slot keeps it unless another server has fewer. A server that gives slots up stops
their queries first. One that the group has removed stops them when it hears of it; until then another may run the same
queries, and transactions keep every batch from being written twice.

Queries go on in the state directory that all servers share. Its id is in the metadata of the slots' offsets; a server
that has another directory while others run would begin its queries anew, so it leaves the group and says so.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from barnabas.client.consumer import GroupConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import ClientError, Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset
from barnabas.pipelines.sql.server.queries import SLOTS
from barnabas.pipelines.sql.server.settings import SqlSettings
from barnabas.wire.errors import ErrorCode

log = logging.getLogger(__name__)
JOINING, ACTIVE, STANDBY, APART = "JOINING", "ACTIVE", "STANDBY", "APART"
LOOK_MS = 250
MARK_LOOK_S = 2.0
RETRY_S = 1.0
HEARTBEAT_MOST_MS = 1_000  # members hear of a rebalance with it
STOPPED_WITHIN_S = 30
STATE_ID = "state-id"
MOVED_ON = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


class UnusableState(Exception):
    """The state directory can't be read or written."""


Slots = Collection[int]


class Leadership(threading.Thread):
    """`begin` is called when slots come, `halt` before they go; `halt` returns when their queries have ended."""

    def __init__(
        self, settings: SqlSettings, directory: Path, begin: Callable[[Slots], None], halt: Callable[[Slots], None]
    ) -> None:
        super().__init__(name="sql-leadership", daemon=True)
        self.role = JOINING
        self.reason: str | None = None  # why this server can't take over
        self._settings = settings
        self._slots: set[int] = set()
        self._id_file = directory / STATE_ID
        self._begin, self._halt = begin, halt
        self._stopped = threading.Event()
        self._stood_by = False
        self._mark_known = False
        self._mark_look_at = 0.0

    def stop(self) -> None:
        """Leaves the group, so that another server goes on at once."""
        self._stopped.set()
        if self.is_alive():
            self.join(STOPPED_WITHIN_S)

    def run(self) -> None:
        while not self._stopped.is_set() and self.role != APART:
            try:
                self._take_part()
            except ClientError as error:
                log.warning("group %s cannot be joined: %s; trying again", self._settings.command_group, error)
                self._stopped.wait(RETRY_S)
            except UnusableState as error:
                self._stay_apart(f"This server cannot run queries, for its state directory cannot be used: {error}.")

    def _consumer(self) -> GroupConsumer:
        session_ms = self._settings.session_timeout_ms
        settings = ConsumerSettings(
            group_id=self._settings.command_group,
            assignors=("cooperative-sticky",),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=max(min(session_ms // 3, HEARTBEAT_MOST_MS), 1),
            auto_commit=False,
            offset_reset="earliest",
            allow_auto_create_topics=False,
        )
        topic = self._settings.slots_topic
        return GroupConsumer(self._settings.kafka, settings, topics=[topic], on_revoked=self._given_up)

    def _take_part(self) -> None:
        with self._consumer() as consumer:
            while not self._stopped.is_set() and self.role != APART:
                consumer.keep_up(LOOK_MS)
                assigned = {slot for _, slot in consumer.assignment}
                if assigned - self._slots:
                    self._take(consumer, assigned)
                elif assigned:
                    continue
                elif consumer.member_id and not consumer.is_rebalancing:
                    self._stand_by(consumer)

    def _take(self, consumer: GroupConsumer, assigned: set[int]) -> None:
        service_id, new = self._settings.service_id, sorted(assigned - self._slots)
        mark = self._mark(consumer)
        if mark and mark != self._own_id():
            if self._stood_by or len(assigned) < SLOTS:  # others run
                self._stay_apart(self._elsewhere())
                return
            log.warning("The queries of service %s ran in another state directory; they begin anew.", service_id)
        try:
            topic = self._settings.slots_topic
            consumer.commit({(topic, slot): CommittedOffset(0, self._made_id()) for slot in new})
        except Refused as error:
            if error.code not in MOVED_ON:
                raise
            return  # the next look takes part in the rebalance
        self.role = ACTIVE
        self._slots |= set(new)
        log.info("This server runs %d of %d parts of the queries of service %s.", len(self._slots), SLOTS, service_id)
        self._begin(new)

    def _stand_by(self, consumer: GroupConsumer) -> None:
        if self.role != STANDBY:
            self.role, self._stood_by, self._mark_known = STANDBY, True, False
            log.info("Other servers run the queries of service %s; this one stands by.", self._settings.service_id)
        if self._mark_known or time.monotonic() < self._mark_look_at:
            return
        self._mark_look_at = time.monotonic() + MARK_LOOK_S
        mark = self._mark(consumer)
        self._mark_known = bool(mark)
        if mark and mark != self._own_id():
            self._stay_apart(self._elsewhere())

    def _given_up(self, partitions: list[TopicPartition]) -> None:
        gone = self._slots & {slot for _, slot in partitions}
        if not gone:
            return
        self._halt(gone)
        self._slots -= gone
        if not self._slots:
            self.role = JOINING
        log.info("%d parts of the queries of service %s are stopped here.", len(gone), self._settings.service_id)

    def _stay_apart(self, reason: str) -> None:
        self.role, self.reason = APART, reason
        log.error("%s", reason)

    def _elsewhere(self) -> str:
        return (
            f"This server cannot take over the queries of service {self._settings.service_id}, because their state is "
            f"in another directory than {self._id_file.parent}: give all servers the same ksql.state.dir."
        )

    def _mark(self, consumer: GroupConsumer) -> str:
        """The id of the directory that the last active servers used; empty if nobody was active."""
        places = [(self._settings.slots_topic, slot) for slot in range(SLOTS)]
        found = consumer.committed(places).values()
        return next((one.metadata for one in found if one is not None and one.metadata), "")

    def _own_id(self) -> str:
        try:
            return self._id_file.read_text().strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise UnusableState(error) from error

    def _made_id(self) -> str:
        found = self._own_id()
        if found:
            return found
        made = str(uuid.uuid4())
        try:
            self._id_file.parent.mkdir(parents=True, exist_ok=True)
            self._id_file.write_text(f"{made}\n")
        except OSError as error:
            raise UnusableState(error) from error
        return made
