"""The controller role of a node: it takes commands while the node leads the quorum, and refuses them otherwise.

A command is the wire request together with its context: who asks, from where, in which version and until when. What it
becomes is looked up by its API key; nobody sends code. When the node becomes the leader, a term (`ActiveController`)
begins as soon as the loader has replayed the whole log; its first records are those that every term begins with. While
a term lasts, brokers that fall silent are fenced, preferred replicas are made leaders again, and an idle quorum of
several nodes gets a record now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.core.controller.decision import ControllerDecision
from barnabas.core.controller.elections import balance_leaders, elect_uncleanly
from barnabas.core.controller.liveness import Sessions, TopicRules, fence
from barnabas.core.metadata.decide import bootstrap
from barnabas.core.metadata.state import BrokerState, MetadataImage
from barnabas.node.configuration.topics import TopicConfigs
from barnabas.node.controller.active import ActiveController, not_controller
from barnabas.node.controller.cluster import Cluster, Deciding
from barnabas.node.controller.presence import Presence
from barnabas.node.metadata.loader import MetadataLoader
from barnabas.node.raft.batches import MetadataBatch
from barnabas.node.raft.interface import Raft
from barnabas.node.raft.snapshots import SnapshotContent, SnapshotId
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import KafkaError
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.wire.records.metadata import NoOpRecord
from barnabas.wire.schema import Record, Request

log = logging.getLogger(__name__)

# How many times within a session it is looked who has fallen silent.
CHECKS_PER_SESSION = 8
# Between two looks, while no records are to be written, whether they are.
IDLE_PAUSE_S = 0.1
# A timer may go off a little early.
IDLE_LEEWAY_S = 0.001


class Controller:
    def __init__(
        self,
        raft: Raft,
        loader: MetadataLoader,
        *,
        node_id: int,
        cluster_id: str,
        topic_configs: TopicConfigs,
        deciding: Callable[[int], Deciding],
        bootstrap_records: Sequence[Record],
        first_level: int,
        clock: Callable[[], int],
    ) -> None:
        """`deciding` says how the API of this key is decided; a log without records begins with `bootstrap_records`."""
        self.node_id = node_id
        # The running term, once it takes commands.
        self.active: ActiveController | None = None
        self._raft = raft
        self._loader = loader
        self._cluster_id = cluster_id
        self._topic_configs = topic_configs
        self._deciding = deciding
        self._bootstrap_records = bootstrap_records
        self._first_level = first_level
        self._clock = clock
        self._sessions = Sessions(0)
        self._term: ActiveController | None = None
        self._activation: asyncio.Task[None] | None = None
        self._watches: list[asyncio.Task[None]] = []
        self._presence: Presence | None = None
        self._stopped = False

    async def execute(self, context: RequestContext, request: Request) -> Any:
        """The response, once what was decided is committed; NOT_CONTROLLER if this node does not lead, or no longer."""
        deciding = self._deciding(context.api_key)
        if deciding.ask_quorum is not None:
            if self.active is None:
                raise not_controller()
            return await deciding.ask_quorum(context, request, self._cluster(self.active.image))
        decide = await deciding.prepared(context, request)
        if self.active is None:
            raise not_controller()
        answer = await self.active.decide(
            lambda image: decide(context, request, self._cluster(image)), context.deadline
        )
        if isinstance(request, BrokerHeartbeatRequest) and not context.is_own and self._presence is not None:
            self._presence.heard(context.session, request.broker_id, request.broker_epoch)
        return answer

    async def until_active(self) -> None:
        """NOT_CONTROLLER if this node does not become the leader."""
        while self.active is None:
            if self._activation is None:
                raise not_controller()
            await asyncio.wait([self._activation])

    async def stop(self) -> None:
        """Waits for what was decided; nothing more is."""
        term, self.active, self._stopped = self.active, None, True
        if self._activation is not None:
            self._activation.cancel()
        self._stop_watching()
        if term is not None:
            try:
                await term.until_committed()
            except KafkaError as error:
                log.warning("The controller stops, and its last changes may not be committed: %s", error.message)

    def _cluster(self, image: MetadataImage) -> Cluster:
        return Cluster(
            self._cluster_id, self.node_id, image, self._topic_configs, self._raft, self._sessions, self._clock
        )

    # The quorum's listener

    def handle_commit(self, batches: Sequence[MetadataBatch]) -> None:
        if self._term is not None:
            self._term.committed(batches[-1].last_offset)

    def handle_load_snapshot(self, snapshot_id: SnapshotId, content: SnapshotContent) -> None:
        """A leader never loads one, and there is no other state here."""

    def handle_leader_change(self, leader_id: int, epoch: int) -> None:
        if self._term is not None:
            self._term.end()
        self._term = self.active = None
        self._stop_watching()
        if self._activation is not None:
            self._activation.cancel()
            self._activation = None
        if leader_id == self.node_id and not self._stopped:
            self._activation = asyncio.get_running_loop().create_task(self._activate(epoch), name="controller-term")

    async def _activate(self, epoch: int) -> None:
        try:
            await self._loader.reached(self._raft.high_watermark - 1)
            self._term = term = ActiveController(self._raft, epoch, lambda: self._loader.image, self._first_level)
            minimum = self._topic_configs.broker(term.image).min_insync_replicas
            term.append(bootstrap(term.image, self._bootstrap_records, minimum))
            await term.until_committed()
            config = self._topic_configs.broker(term.image)
            self._sessions = Sessions.begin(term.image, config.broker_session_timeout_ms, self._clock())
            self.active = term
            self._watch(term)
            log.info("Node %d is the active controller in epoch %d", self.node_id, epoch)
        except KafkaError as error:
            log.warning("Node %d did not become the active controller in epoch %d: %s", self.node_id, epoch, error)
        finally:
            if self._activation is asyncio.current_task():
                self._activation = None

    # While a term lasts

    def _watch(self, term: ActiveController) -> None:
        loop = asyncio.get_running_loop()
        self._watches = [
            loop.create_task(self._fence_silent_brokers(term), name="broker-sessions"),
            loop.create_task(self._write_when_idle(term), name="idle-records"),
            loop.create_task(self._balance_leaders(term), name="preferred-leaders"),
            loop.create_task(self._elect_uncleanly(term), name="unclean-elections"),
        ]
        self._watch_processes(term)

    def _watch_processes(self, term: ActiveController) -> None:
        config = self._topic_configs.broker(term.image)
        sessions, fencing = self._sessions, set[asyncio.Task[None]]()

        def gone(broker: BrokerState) -> None:
            sessions.expire(broker.id, broker.epoch)
            task = asyncio.get_running_loop().create_task(
                self._fence(term, broker.id, "has stopped without deregistering")
            )
            fencing.add(task)
            task.add_done_callback(fencing.discard)

        self._presence = Presence(
            lambda broker_id: term.image.brokers.get(broker_id),
            lambda broker, since_ms: sessions.heard_since(broker.id, since_ms),
            gone,
            self._clock,
            listener=config.inter_broker_listener_name,
        )
        others = [broker for broker in term.image.brokers.values() if broker.id != self.node_id]
        self._presence.begin(others, config.broker_heartbeat_interval_ms)

    def _stop_watching(self) -> None:
        for watch in self._watches:
            watch.cancel()
        self._watches = []
        if self._presence is not None:
            self._presence.end()
            self._presence = None

    async def _fence_silent_brokers(self, term: ActiveController) -> None:
        pause_s = self._sessions.timeout_ms / CHECKS_PER_SESSION / 1000
        while self.active is term:
            await asyncio.sleep(pause_s)
            cluster = self._cluster(term.image)
            if cluster.is_alone_with(self.node_id):
                self._sessions.touch(self.node_id, self._clock())
            for broker_id in self._sessions.expired(term.image, self._clock()):
                await self._fence(term, broker_id, f"was not heard of for {self._sessions.timeout_ms} ms")

    async def _fence(self, term: ActiveController, broker_id: int, why: str) -> None:
        def decide(image: MetadataImage) -> ControllerDecision[bool]:
            if broker_id not in self._sessions.expired(image, self._clock()):
                return ControllerDecision([], response=False)
            records = fence(image, image.brokers[broker_id], self._cluster(image).rules)
            return ControllerDecision(records, response=True, is_atomic=False)

        try:
            if await term.decide(decide):
                log.warning("broker %d %s: the controller fenced it", broker_id, why)
        except KafkaError as error:
            log.warning("broker %d %s, but the controller could not fence it: %s", broker_id, why, error.message)

    async def _balance_leaders(self, term: ActiveController) -> None:
        while self.active is term:
            config = self._topic_configs.broker(term.image)
            await asyncio.sleep(config.leader_imbalance_check_interval_seconds)
            if config.auto_leader_rebalance_enable:
                await self._hold_elections(term, balance_leaders, "preferred replicas lead again")

    async def _elect_uncleanly(self, term: ActiveController) -> None:
        while self.active is term:
            config = self._topic_configs.broker(term.image)
            await asyncio.sleep(config.unclean_leader_election_interval_ms / 1000)
            await self._hold_elections(term, elect_uncleanly, "partitions have a leader that may lack records")

    async def _hold_elections(
        self, term: ActiveController, elect: Callable[[MetadataImage, TopicRules], list[Record]], what: str
    ) -> None:
        def decide(image: MetadataImage) -> ControllerDecision[int]:
            records = elect(image, self._cluster(image).rules)
            return ControllerDecision(records, response=len(records), is_atomic=False)

        try:
            if count := await term.decide(decide):
                log.info("%d %s", count, what)
        except KafkaError as error:
            log.warning("The controller could not elect leaders: %s", error.message)

    async def _write_when_idle(self, term: ActiveController) -> None:
        """Followers see by these records that their leader goes on; a quorum of one has no followers."""
        loop = asyncio.get_running_loop()
        while self.active is term:
            config = self._topic_configs.broker(term.image)
            idle_s = config.metadata_max_idle_interval_ms / 1000
            pause_s = max(idle_s, IDLE_PAUSE_S)
            if idle_s > 0 and not self._raft.is_alone:
                pause_s = term.appended_at + idle_s - loop.time()
                if pause_s < IDLE_LEEWAY_S:
                    self._append_no_op(term)
                    pause_s = idle_s
            await asyncio.sleep(pause_s)

    def _append_no_op(self, term: ActiveController) -> None:
        try:
            term.append([NoOpRecord()])
        except KafkaError as error:
            log.warning("The controller could not write a record while nothing happened: %s", error.message)
