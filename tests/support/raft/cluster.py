"""Replicas, a network and disks on one thread, in simulated time.

Every replica is the real `Raft`; around it is the driver's loop of the package's opening, with a network that loses,
delays, repeats and reorders, and a disk that forgets what was not flushed. All chance comes from one seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from barnabas.core.raft import (
    Answer,
    Answered,
    Asked,
    Endpoints,
    Failed,
    Flush,
    QuorumState,
    Raft,
    RaftConfig,
    Ready,
    Send,
    SnapshotId,
    SnapshotVoters,
    Voter,
    VoterSet,
    fit_version,
)
from barnabas.core.raft.log import FIRST_SNAPSHOT
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from barnabas.wire.schema import Request, Response
from barnabas.wire.uuids import Uuid
from tests.support.raft.memory_log import MemoryLog, build_snapshot

LISTENER = "CONTROLLER"
CLUSTER_ID = "simulated"
VOTE, BEGIN, END, FETCH, FETCH_SNAPSHOT = 52, 53, 54, 1, 59


class Crash(Exception):
    """The process of a replica ends in the middle of what it does."""


@dataclass
class Network:
    """What may happen to a message. `cut` holds the pairs between which nothing passes, in that direction."""

    random: Random
    loss: float = 0.0
    repeat: float = 0.0
    delay_ms: tuple[int, int] = (1, 5)
    slow: float = 0.0
    cut: set[tuple[int, int]] = field(default_factory=set)
    # How often a cut looks as if nobody listened there.
    false_refusal: float = 0.0

    def refuses(self, source: int, target: int) -> bool:
        return (source, target) in self.cut and self.false_refusal > 0 and self.random.random() < self.false_refusal

    def deliveries(self, source: int, target: int) -> list[int]:
        """After how many milliseconds the message arrives, how often."""
        if (source, target) in self.cut or self.random.random() < self.loss:
            return []
        count = 2 if self.random.random() < self.repeat else 1
        return [self._delay_ms() for _ in range(count)]

    def _delay_ms(self) -> int:
        if self.random.random() < self.slow:
            return self.random.randint(200, 1500)
        return self.random.randint(*self.delay_ms)


@dataclass
class Disk:
    """What a replica leaves behind."""

    log: MemoryLog = field(default_factory=MemoryLog)
    quorum_state: QuorumState | None = None


class SimulatedNode:
    """One node: a disk, and now and then a process."""

    def __init__(self, cluster: Cluster, config: RaftConfig, versions: dict[int, int]) -> None:
        self.cluster = cluster
        self.config = config
        self.id = config.node_id
        self.versions = versions
        self.disk = Disk()
        self.raft: Raft | None = None
        self.life = 0
        self.applied_offset = -1
        self.applied_digest = 0
        self.answered: dict[int, Callable[[Response], None]] = {}
        self._next_request_id = 0
        self._tick_at_ms = -1
        self.crash_chance = 0.0

    @property
    def is_up(self) -> bool:
        return self.raft is not None

    def start(self) -> None:
        assert self.raft is None
        self.life += 1
        self.applied_offset, self.applied_digest = -1, 0
        cluster = self.cluster
        seed = cluster.random.getrandbits(32)
        self.raft = Raft(self.config, self.disk.log, self.disk.quorum_state, Random(seed), cluster.now_ms)
        cluster.tell(f"{self.id} starts")
        self.drive()

    def stop(self, *, power_lost: bool) -> None:
        if self.raft is None:
            return
        self.cluster.tell(f"{self.id} {'loses power' if power_lost else 'is killed'}")
        self.raft = None
        self.answered.clear()
        self._tick_at_ms = -1
        self.disk.log.stop(self.cluster.random if power_lost else None)

    def act(self, action: Callable[[Raft], object]) -> None:
        if self.raft is None:
            return
        action(self.raft)
        self.drive()

    def drive(self) -> None:
        """The driver's loop, up to where it waits."""
        while self.raft is not None and (ready := self.raft.ready()) is not None:
            try:
                self._do(ready)
            except Crash:
                self.stop(power_lost=self.cluster.random.random() < 0.5)
                self.cluster.after(self.cluster.random.randint(1, 1500), self._restart)
                return
            if ready.stopped:
                self.cluster.tell(f"{self.id} has stopped")
                self.stop(power_lost=False)
                return
        self._schedule_tick()
        self.cluster.judge(self)

    def _restart(self) -> None:
        if self.raft is None:
            self.start()

    def _do(self, ready: Ready) -> None:
        cluster = self.cluster
        for note in ready.notes:
            cluster.tell(f"{self.id} notes: {note}")
        self._maybe_crash()
        if ready.quorum_state is not None:
            self.disk.quorum_state = ready.quorum_state
            cluster.judges.persisted(self, ready.quorum_state)
        self._maybe_crash()
        for send in ready.messages:
            cluster.send(self, send)
        for answer in ready.answers:
            self._answer(answer)
        if ready.flush is not None:
            self._flush(ready.flush)
        if ready.freeze is not None:
            self._freeze(ready.freeze)
        if ready.leader is not None:
            cluster.tell(f"{self.id} sees leader {ready.leader.leader_id} in epoch {ready.leader.epoch}")
        if ready.high_watermark is not None:
            cluster.judges.committed(self, ready.high_watermark)

    def _maybe_crash(self) -> None:
        if self.crash_chance and self.cluster.random.random() < self.crash_chance:
            raise Crash

    def _answer(self, answer: Answer) -> None:
        self.answered.pop(answer.request_id)(answer.body)

    def _flush(self, flush: Flush) -> None:
        image, life = self.disk.log.image(), self.life

        def done() -> None:
            if self.raft is not None and self.life == life:
                self.disk.log.flush(image)
                self.act(lambda raft: raft.flushed(flush, self.cluster.now_ms))

        self.cluster.after(self.cluster.random.randint(0, self.cluster.flush_ms), done)

    def _freeze(self, snapshot_id: SnapshotId) -> None:
        life, freeze = self.life, self.disk.log.prepare_freeze(snapshot_id)

        def done() -> None:
            if self.raft is not None and self.life == life:
                freeze()
                self.act(lambda raft: raft.snapshot_frozen(snapshot_id, self.cluster.now_ms))

        self.cluster.after(self.cluster.random.randint(0, self.cluster.flush_ms), done)

    def ask(self, body: Request, version: int, reply: Callable[[Response], None]) -> None:
        """A request arrives."""
        if self.raft is None:
            return
        if isinstance(body, ApiVersionsRequest):
            low, high = self.config.kraft_versions
            feature = SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)
            reply(ApiVersionsResponse(supported_features=[feature]))
            return
        self._next_request_id += 1
        request_id = self._next_request_id

        def answer(response: Response) -> None:
            self.cluster.judges.answered(self, body, response)
            reply(response)

        self.answered[request_id] = self.cluster.will_answer(self, body, answer)
        self.cluster.judges.asked(self, body)
        self.act(lambda raft: raft.step(Asked(request_id, version, LISTENER, body), self.cluster.now_ms))

    def _schedule_tick(self) -> None:
        if self.raft is None or self.raft.deadline_ms > self.cluster.now_ms + 10**9:
            return
        at_ms = max(self.raft.deadline_ms, self.cluster.now_ms + 1)
        if self._tick_at_ms > self.cluster.now_ms and self._tick_at_ms <= at_ms:
            return
        self._tick_at_ms, life = at_ms, self.life

        def tick() -> None:
            if self.raft is None or self.life != life:
                return
            self._tick_at_ms = -1
            if self.raft.deadline_ms <= self.cluster.now_ms:
                self.act(lambda raft: raft.tick(self.cluster.now_ms))
            else:
                self._schedule_tick()

        self.cluster.at(at_ms, tick)


class Cluster:
    def __init__(self, seed: int, judges: Judges) -> None:
        self.random = Random(seed)
        self.now_ms = 1_000_000
        self.network = Network(Random(self.random.getrandbits(32)))
        self.judges = judges
        self.nodes: dict[int, SimulatedNode] = {}
        self.flush_ms = 10
        self.round_trips = False
        self.transcript: list[str] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._event_count = 0
        judges.cluster = self

    # Time.

    def at(self, at_ms: int, action: Callable[[], None]) -> None:
        self._event_count += 1
        heapq.heappush(self._events, (at_ms, self._event_count, action))

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.at(self.now_ms + delay_ms, action)

    def run(self, until_ms: int, condition: Callable[[], bool] | None = None) -> bool:
        """Until that time, or until the condition holds."""
        while self._events and self._events[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._events)
            self.now_ms = max(self.now_ms, at_ms)
            action()
            if condition is not None and condition():
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return condition is not None and condition()

    def tell(self, sentence: str) -> None:
        self.transcript.append(f"{self.now_ms - 1_000_000:>7} ms  {sentence}")

    def judge(self, node: SimulatedNode) -> None:
        self.judges.look(node)

    def will_answer(
        self, node: SimulatedNode, request: Request, reply: Callable[[Response], None]
    ) -> Callable[[Response], None]:
        return reply

    # Messages.

    def send(self, source: SimulatedNode, send: Send) -> None:
        target = self.nodes[send.to.port]
        body, key = send.body, send.body.api_key
        newest = body.valid_versions[1]
        version = min(source.versions.get(key, newest), target.versions.get(key, newest))
        fitted = fit_version(body, version)
        life = source.life

        def fail(error: ErrorCode = ErrorCode.NETWORK_EXCEPTION, *, is_refused: bool = False) -> None:
            if source.raft is not None and source.life == life:
                source.act(lambda raft: raft.step(Failed(send.correlation_id, error, is_refused), self.now_ms))

        if fitted is None:
            self.after(1, lambda: fail(ErrorCode.UNSUPPORTED_VERSION))
            return
        if not target.is_up or self.network.refuses(source.id, target.id):
            # Who is not there refuses connections or says nothing.
            chance = self.random.random()
            if chance < 0.7:
                self.after(1, lambda: fail(is_refused=chance < 0.45))
            return
        arriving = self._through_codec(fitted, version)

        def reply(response: Response) -> None:
            returned = self._through_codec(response, version)
            for delay_ms in self.network.deliveries(target.id, source.id):
                self.after(delay_ms, lambda: receive(returned))

        def receive(response: Response) -> None:
            if source.raft is not None and source.life == life:
                source.act(lambda raft: raft.step(Answered(send.correlation_id, response), self.now_ms))

        for delay_ms in self.network.deliveries(source.id, target.id):
            self.after(delay_ms, lambda: target.ask(arriving, version, reply))

    def _through_codec(self, body: Request | Response, version: int) -> Request | Response:
        if not self.round_trips:
            return body
        return type(body).decode(bytes(body.encode(version)), version)

    # Making a cluster.

    def add_node(
        self,
        node_id: int,
        *,
        static_voters: VoterSet,
        bootstrap_ids: list[int],
        versions: dict[int, int] | None = None,
        can_become_voter: bool = True,
        auto_join: bool = False,
    ) -> SimulatedNode:
        config = RaftConfig(
            node_id=node_id,
            directory_id=directory_id(node_id),
            cluster_id=CLUSTER_ID,
            listener_name=LISTENER,
            endpoints=endpoints(node_id) if can_become_voter else Endpoints(),
            can_become_voter=can_become_voter,
            static_voters=static_voters,
            bootstrap_servers=[(f"host{each}", each) for each in bootstrap_ids],
            auto_join=auto_join,
            # Who does not say its directory in a Fetch cannot be a voter in the log.
            kraft_versions=(0, 1) if (versions or {}).get(FETCH, 17) >= 17 else (0, 0),
            fetch_max_bytes=self.random.choice([1, 300, 1 << 20]),
            fetch_snapshot_max_bytes=self.random.choice([40, 1 << 20]),
        )
        node = self.nodes[node_id] = SimulatedNode(self, config, versions or {})
        return node

    def format(self, node: SimulatedNode, voters: VoterSet) -> None:
        """As `kafka-storage format --initial-controllers`: the voters are in a snapshot at offset 0."""
        data = build_snapshot(FIRST_SNAPSHOT, SnapshotVoters(1, voters), 0, self.now_ms)
        node.disk.log.snapshots[FIRST_SNAPSHOT] = data


class Judges:
    """Who watches; see `judges.py`."""

    cluster: Cluster

    def look(self, node: SimulatedNode) -> None: ...

    def persisted(self, node: SimulatedNode, state: QuorumState) -> None: ...

    def committed(self, node: SimulatedNode, high_watermark: int) -> None: ...

    def asked(self, node: SimulatedNode, body: Request) -> None: ...

    def answered(self, node: SimulatedNode, request: Request, response: Response) -> None: ...


def directory_id(node_id: int) -> Uuid:
    return Uuid(b"dir" + node_id.to_bytes(13, "big"))


def endpoints(node_id: int) -> Endpoints:
    return Endpoints.of([(LISTENER, f"host{node_id}", node_id)])


def dynamic_voters(node_ids: list[int]) -> VoterSet:
    from barnabas.core.raft import ReplicaKey

    return VoterSet(Voter(ReplicaKey(each, directory_id(each)), endpoints(each), (0, 1)) for each in node_ids)


def static_voters(node_ids: list[int]) -> VoterSet:
    return VoterSet.static(LISTENER, [(each, f"host{each}", each) for each in node_ids])
