"""Which server of a service runs its persistent queries: the one that is assigned the command topic's partition.

    joining --assigned--> active --taken away, or lost--> joining
       |                    ^
       +--not assigned--> standby --state elsewhere--> apart

All servers of a service are members of one group. Assignment is sticky, so whoever has the partition keeps it until it
leaves or dies. A server that gives it up stops its queries first. One that the group has removed stops them when it
hears of it; until then another may run the same queries, and transactions keep every batch from being written twice.

Queries go on in the active server's state directory. Its id is in the metadata of the group's offset; a server that
stands by and has another directory would begin all queries anew, so it leaves the group and says so.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from barnabas.client.consumer import GroupConsumer
from barnabas.client.consumer_settings import ConsumerSettings
from barnabas.client.errors import ClientError, Refused
from barnabas.client.metadata import TopicPartition
from barnabas.client.offsets import CommittedOffset
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


class Leadership(threading.Thread):
    """`begin` is called when the partition comes, `halt` before it goes; `halt` returns when the queries have ended."""

    def __init__(
        self, settings: SqlSettings, directory: Path, begin: Callable[[], None], halt: Callable[[], None]
    ) -> None:
        super().__init__(name="sql-leadership", daemon=True)
        self.role = JOINING
        self.reason: str | None = None  # why this server can't take over
        self._settings = settings
        self._place: TopicPartition = (settings.command_topic, 0)
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
        topic, _ = self._place
        return GroupConsumer(self._settings.kafka, settings, topics=[topic], on_revoked=self._given_up)

    def _take_part(self) -> None:
        with self._consumer() as consumer:
            while not self._stopped.is_set() and self.role != APART:
                consumer.keep_up(LOOK_MS)
                if self._place in consumer.assignment:
                    if self.role != ACTIVE:
                        self._take(consumer)
                elif consumer.member_id and not consumer.is_rebalancing:
                    self._stand_by(consumer)

    def _take(self, consumer: GroupConsumer) -> None:
        service_id = self._settings.service_id
        mark = self._mark(consumer)
        if mark and mark != self._own_id():
            if self._stood_by:
                self._stay_apart(self._elsewhere())
                return
            log.warning("The queries of service %s ran in another state directory; they begin anew.", service_id)
        try:
            consumer.commit({self._place: CommittedOffset(0, self._made_id())})
        except Refused as error:
            if error.code not in MOVED_ON:
                raise
            return  # the next look takes part in the rebalance
        self.role = ACTIVE
        log.info("This server is the active one of service %s and runs its queries.", service_id)
        self._begin()

    def _stand_by(self, consumer: GroupConsumer) -> None:
        if self.role != STANDBY:
            self.role, self._stood_by, self._mark_known = STANDBY, True, False
            log.info("Another server runs the queries of service %s; this one stands by.", self._settings.service_id)
        if self._mark_known or time.monotonic() < self._mark_look_at:
            return
        self._mark_look_at = time.monotonic() + MARK_LOOK_S
        mark = self._mark(consumer)
        self._mark_known = bool(mark)
        if mark and mark != self._own_id():
            self._stay_apart(self._elsewhere())

    def _given_up(self, partitions: list[TopicPartition]) -> None:
        if self.role == ACTIVE:
            self._halt()
            self.role = JOINING
            log.info("The queries of service %s are stopped in this server.", self._settings.service_id)

    def _stay_apart(self, reason: str) -> None:
        self.role, self.reason = APART, reason
        log.error("%s", reason)

    def _elsewhere(self) -> str:
        return (
            f"This server cannot take over the queries of service {self._settings.service_id}, because their state is "
            f"in another directory than {self._id_file.parent}: give all servers the same ksql.state.dir."
        )

    def _mark(self, consumer: GroupConsumer) -> str:
        """The id of the directory that the last active server used; empty if nobody was active."""
        found = consumer.committed([self._place]).get(self._place)
        return "" if found is None else found.metadata

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
