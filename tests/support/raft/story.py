"""One seed, one story: a cluster in trouble, then peace, and everybody must agree and go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from barnabas.core.raft import Endpoints, NotLeader, Raft, ReplicaKey, SnapshotId, UpgradeRefused, VoterSet
from barnabas.core.raft.state import Leader
from barnabas.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.wire.schema import Request
from tests.support.raft.cluster import (
    BEGIN,
    CLUSTER_ID,
    END,
    FETCH,
    VOTE,
    Cluster,
    SimulatedNode,
    directory_id,
    dynamic_voters,
    endpoints,
    static_voters,
)
from tests.support.raft.judges import Broken, StrictJudges

PEACE_MS = 60_000
TRANSCRIPT_LINES = 60


class Story:
    # A mutant takes snapshots where nothing is committed.
    snapshot_at_log_end = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.judges = StrictJudges()
        self.cluster = Cluster(seed, self.judges)
        self.random = self.cluster.random
        self.is_dynamic = self.random.random() < 0.6
        self._values = 0
        self._goal = -1
        self._make()

    def run(self) -> None:
        try:
            self._trouble()
            self._peace()
        except (AssertionError, Exception) as error:
            last = "\n".join(self.cluster.transcript[-TRANSCRIPT_LINES:])
            raise Broken(f"RAFT_SEED={self.seed} tells it again: {type(error).__name__}: {error}\n{last}") from error

    # The cast.

    def _make(self) -> None:
        random, cluster = self.random, self.cluster
        voter_ids = list(range(1, random.choice([1, 2, 3, 3, 3, 4, 5]) + 1))
        observer_ids = list(range(11, 11 + random.choice([0, 0, 1, 2, 3])))
        everybody = voter_ids + observer_ids
        cluster.round_trips = random.random() < 0.1
        static = VoterSet() if self.is_dynamic else static_voters(voter_ids)
        for node_id in everybody:
            is_voter = node_id in voter_ids
            can_become_voter = is_voter or random.random() < 0.7
            auto_join = self.is_dynamic and can_become_voter and random.random() < 0.15
            node = cluster.add_node(
                node_id,
                static_voters=static,
                bootstrap_ids=[each for each in everybody if each != node_id] if self.is_dynamic else [],
                versions=self._versions(),
                can_become_voter=can_become_voter,
                auto_join=auto_join,
            )
            if self.is_dynamic and is_voter:
                cluster.format(node, dynamic_voters(voter_ids))
        network = cluster.network
        network.loss = random.choice([0.0, 0.0, 0.02, 0.1])
        network.repeat = random.choice([0.0, 0.0, 0.05])
        network.delay_ms = random.choice([(1, 2), (1, 20), (1, 120)])
        network.slow = random.choice([0.0, 0.0, 0.02])
        network.false_refusal = random.choice([0.0, 0.0, 0.3])
        cluster.flush_ms = random.choice([0, 5, 50])
        crash_chance = random.choice([0.0, 0.0, 0.002, 0.01])
        for node in cluster.nodes.values():
            node.crash_chance = crash_chance
            node.start()

    def _versions(self) -> dict[int, int]:
        random = self.random
        if random.random() < 0.7:
            return {}
        lowest_fetch = 17 if self.is_dynamic else 12
        return {
            VOTE: random.choice([0, 1, 2]) if not self.is_dynamic else random.choice([1, 2]),
            BEGIN: random.choice([0, 1]) if not self.is_dynamic else 1,
            END: random.choice([0, 1]) if not self.is_dynamic else 1,
            FETCH: random.randint(lowest_fetch, 18),
        }

    # Trouble.

    def _trouble(self) -> None:
        cluster, random = self.cluster, self.random
        deeds: list[tuple[Callable[[], None], int]] = [
            (self._write, 60),
            (self._kill, 6),
            (self._cut, 6),
            (self._heal, 6),
            (self._snapshot, 8),
            (self._clean, 6),
            (self._resign, 2),
            (self._shut_down, 2),
            (self._upgrade, 1),
        ]
        if self.is_dynamic:
            deeds += [(self._add_voter, 5), (self._remove_voter, 5)]
        actions, weights = zip(*deeds, strict=True)
        cluster.run(cluster.now_ms + random.choice([0, 1500, 3000]))
        for _ in range(random.randint(20, 120)):
            cluster.run(cluster.now_ms + random.choice([5, 20, 50, 200, 1000]))
            random.choices(actions, weights)[0]()

    def _up(self) -> list[SimulatedNode]:
        return [node for node in self.cluster.nodes.values() if node.is_up]

    def _leaders(self) -> list[SimulatedNode]:
        return [node for node in self._up() if node.raft is not None and isinstance(node.raft.state, Leader)]

    def _write(self) -> None:
        leaders = self._leaders()
        if leaders:
            self.append(self.random.choice(leaders), self.random.choice([1, 1, 3]))

    def append(self, node: SimulatedNode, count: int) -> int:
        """The offset behind the records; -1 if the node does not lead."""
        values = [f"{self._values + index}".encode() for index in range(count)]
        self._values += count
        ends: list[int] = []

        def do(raft: Raft) -> None:
            try:
                is_quiet = self._values % 3 == 0
                ends.append(raft.append(raft.epoch, values, self.cluster.now_ms, quietly=is_quiet) + 1)
            except NotLeader:
                pass

        node.act(do)
        return ends[0] if ends else -1

    def _kill(self) -> None:
        up = self._up()
        if not up:
            return
        leaders = self._leaders()
        node = self.random.choice(leaders if leaders and self.random.random() < 0.4 else up)
        everybody = self.random.random() < 0.05
        for each in up if everybody else [node]:
            self._stop_for_a_while(each)

    def _stop_for_a_while(self, node: SimulatedNode) -> None:
        node.stop(power_lost=self.random.random() < 0.5)
        if self.is_dynamic and node.config.endpoints and self.random.random() < 0.1:
            # It comes back with another listener, which the leader is to be told.
            more = Endpoints.of([*endpoints(node.id), ("MORE", f"host{node.id}", 100 + self.random.randrange(9))])
            node.config = replace(node.config, endpoints=more)
        self.cluster.after(self.random.choice([0, 10, 500, 3000]), lambda: node.start() if not node.is_up else None)

    def _cut(self) -> None:
        cluster = self.cluster
        ids = list(cluster.nodes)
        one = self.random.choice([node.id for node in self._leaders()] or ids)
        cut = cluster.network.cut
        kind = self.random.randrange(4)
        if kind == 0:  # alone
            cut |= {(one, each) for each in ids if each != one} | {(each, one) for each in ids if each != one}
        elif kind == 1:  # deaf
            cut |= {(each, one) for each in ids if each != one}
        elif kind == 2:  # mute
            cut |= {(one, each) for each in ids if each != one}
        else:  # two camps
            camp = {each for each in ids if self.random.random() < 0.5}
            cut |= {(a, b) for a in ids for b in ids if (a in camp) != (b in camp)}
        cluster.tell(f"the network is cut: {sorted(cut)}")

    def _heal(self) -> None:
        if self.cluster.network.cut:
            self.cluster.network.cut.clear()
            self.cluster.tell("the network is whole")

    def _snapshot(self) -> None:
        up = [node for node in self._up() if node.applied_offset > 0]
        if up:
            self.snapshot(self.random.choice(up))

    def snapshot(self, node: SimulatedNode) -> None:
        raft, log = node.raft, node.disk.log
        assert raft is not None
        end_offset = log.end_offset if self.snapshot_at_log_end else node.applied_offset
        latest = log.latest_snapshot
        if end_offset <= log.start_offset or (latest is not None and latest.end_offset >= end_offset):
            return
        epoch = log.boundaries(end_offset - 1, end_offset)[-1].epoch
        snapshot_id = SnapshotId(end_offset, epoch)
        log.add_snapshot(snapshot_id, raft.snapshot_voters(snapshot_id), self.cluster.now_ms)
        self.cluster.tell(f"{node.id} takes the snapshot {end_offset}-{epoch}")

    def _clean(self) -> None:
        node = self.random.choice(list(self.cluster.nodes.values()))
        latest = node.disk.log.latest_snapshot
        if node.is_up and latest is not None and node.applied_offset >= latest.end_offset > 0:
            node.disk.log.delete_before(latest)
            self.cluster.tell(f"{node.id} deletes its log below {latest.end_offset}")

    def _resign(self) -> None:
        for node in self._leaders()[:1]:
            node.act(lambda raft: raft.resign(raft.epoch, self.cluster.now_ms))

    def _shut_down(self) -> None:
        up = self._up()
        if up:
            node = self.random.choice(up)
            self.cluster.tell(f"{node.id} is asked to stop")
            node.act(lambda raft: raft.shut_down(5000, self.cluster.now_ms))
            self.cluster.after(6000, lambda: node.start() if not node.is_up else None)

    def _upgrade(self) -> None:
        for node in self._leaders()[:1]:

            def do(raft: Raft) -> None:
                try:
                    raft.upgrade(raft.epoch, 1, self.cluster.now_ms)
                except (NotLeader, UpgradeRefused):
                    pass

            node.act(do)

    def _add_voter(self) -> None:
        for leader in self._leaders()[:1]:
            assert leader.raft is not None
            known = leader.raft.voters.ids
            others = [n for n in self.cluster.nodes.values() if n.id not in known and n.config.can_become_voter]
            if others:
                node = self.random.choice(others)
                listeners = [Listener(name=name, host=host, port=port) for name, host, port in endpoints(node.id)]
                request = AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    voter_id=node.id,
                    voter_directory_id=directory_id(node.id),
                    listeners=listeners,
                    ack_when_committed=self.random.random() < 0.5,
                )
                self._ask(leader, request, f"add voter {node.id}")

    def _remove_voter(self) -> None:
        for leader in self._leaders()[:1]:
            assert leader.raft is not None
            key: ReplicaKey = self.random.choice([voter.key for voter in leader.raft.voters])
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=key.id, voter_directory_id=key.directory_id
            )
            self._ask(leader, request, f"remove voter {key.id}")

    def _ask(self, leader: SimulatedNode, request: Request, wish: str) -> None:
        self.cluster.tell(f"{leader.id} is asked to {wish}")

        def heard(response: object) -> None:
            self.cluster.tell(f"{leader.id} was asked to {wish}: {getattr(response, 'error_code', None)}")

        leader.ask(request, 1 if isinstance(request, AddRaftVoterRequest) else 0, heard)

    # Peace.

    def _peace(self) -> None:
        cluster = self.cluster
        network = cluster.network
        network.cut.clear()
        network.loss = network.repeat = network.slow = 0.0
        cluster.tell("peace")
        for node in cluster.nodes.values():
            node.crash_chance = 0.0
        # Those that are on their way down come back by themselves.
        cluster.run(cluster.now_ms + 8000)
        for node in cluster.nodes.values():
            if not node.is_up:
                node.start()
        if not cluster.run(cluster.now_ms + PEACE_MS, lambda: bool(self._established())):
            raise Broken("no leader is elected in peace")
        self._everybody_follows()

    def _established(self) -> list[SimulatedNode]:
        return [node for node in self._leaders() if self._mark(node) is not None]

    def _mark(self, node: SimulatedNode) -> int | None:
        state = node.raft.state if node.raft is not None else None
        return state.high_watermark if isinstance(state, Leader) else None

    def _everybody_follows(self) -> None:
        """What is written now gets to all."""
        cluster = self.cluster
        limit_ms = cluster.now_ms + PEACE_MS
        self._goal = -1
        while not self._all_have_goal():
            if cluster.now_ms > limit_ms:
                behind = [(node.id, node.applied_offset) for node in cluster.nodes.values()]
                raise Broken(f"in peace not all get to {self._goal}: {behind}")
            if self._established():
                self._goal = self.append(self._established()[0], 1)
            cluster.run(cluster.now_ms + 5000, self._all_have_goal)
        digests = {node.applied_digest for node in cluster.nodes.values() if node.applied_offset == self._goal}
        if len(digests) > 1:
            raise Broken(f"the replicas differ at {self._goal}")

    def _all_have_goal(self) -> bool:
        nodes = self.cluster.nodes.values()
        return self._goal >= 0 and all(node.applied_offset >= self._goal for node in nodes)
