"""What a replica is told about itself; the time-outs have Kafka's names and defaults (`controller.quorum.*`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from barnabas.core.raft.voters import Endpoints, ReplicaKey, VoterSet
from barnabas.wire.uuids import ONE_UUID, Uuid

# The greatest batch that Apache Kafka reads.
BATCH_BYTES_MAX = 8 * 1024 * 1024
OBSERVER_SESSION_MS = 5 * 60 * 1000
OBSERVERS_MAX = 1000
# It has no next one: nobody may get there by another's word.
EPOCH_MAX = 2**31 - 1
CAUGHT_UP_WITHIN_MS = 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    node_id: int
    # That of the directory of the metadata log, from `meta.properties`.
    directory_id: Uuid
    cluster_id: str
    # The name of the listener by which this node talks to its peers: the first of `controller.listener.names`.
    listener_name: str = "CONTROLLER"
    # Where peers reach this node, by listener; empty on a node that is no controller.
    endpoints: Endpoints = field(default_factory=Endpoints)
    # A controller, though it may not be a voter now; a broker never is.
    can_become_voter: bool = True
    # `controller.quorum.voters`; they count only while no voters are in the log.
    static_voters: VoterSet = field(default_factory=VoterSet)
    # `controller.quorum.bootstrap.servers`, host and port; the static voters if there are none.
    bootstrap_servers: Sequence[tuple[str, int]] = ()
    topic: str = "__cluster_metadata"
    topic_id: Uuid = ONE_UUID
    kraft_versions: tuple[int, int] = (0, 1)
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    # Longer than the records of an idle leader are apart, so that these answer a fetch.
    fetch_max_wait_ms: int = 750
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    auto_join: bool = False

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_period_ms(self) -> int:
        return self.fetch_timeout_ms // 2
