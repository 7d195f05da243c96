"""Consensus on the metadata log, as KRaft has it: a state machine without I/O, clock or randomness of its own.

A `Raft` is one replica. What happens goes in: a request of a peer or an answer to a message it sent (`step`), time that
passed (`tick`), records to append (`append`), a flush that is done (`flushed`). What is to be done comes out, as one
`Ready`. The messages are the wire's own, one class for all versions. The log stands behind a small protocol
(`log.RaftLog`), which the replica reads and writes without waiting: written means handed to the operating system.
What must be on disk is said by `Ready.flush`, and the replica itself holds back whatever depends on it: a voter
acknowledges records by its next Fetch only after their flush, a leader counts its own log only after its flush.

The loop of a driver, whole:

    raft = Raft(config, log, quorum_state, random, now_ms())

    while True:
        if ready := raft.ready():
            for note in ready.notes:
                logger.warning(note)                        # a peer's mistake, in a sentence
            if ready.quorum_state is not None:
                write_quorum_state(ready.quorum_state)      # and fsync: before anything below leaves the process
            for send in ready.messages:
                start_sending(send)                         # -> raft.step(Answered(...)) or raft.step(Failed(...))
            for answer in ready.answers:
                respond(answer.request_id, answer.body)     # to whoever asked with that id
            if ready.flush is not None:
                start_flushing(ready.flush)                 # fsync the log, then raft.flushed(ready.flush, now_ms())
            if ready.freeze is not None:
                start_freezing(ready.freeze)                # fsync and rename the fetched snapshot,
                                                            # then raft.snapshot_frozen(ready.freeze, now_ms())
            if ready.leader is not None:
                leader_changed(ready.leader)
            if ready.high_watermark is not None:
                committed(ready.high_watermark)             # records below are committed: hand them to listeners
            if ready.stopped:
                break
            continue
        event = wait_for_event(until_ms=raft.deadline_ms)   # a frame, a flush that is done, a record to append, or time
        match event:
            case Request():  raft.step(Asked(id, version, listener, body), now_ms())
            case Response(): raft.step(Answered(correlation_id, body), now_ms())
            case Lost():     raft.step(Failed(correlation_id, error), now_ms())
            case Time():     raft.tick(now_ms())

Rules for the driver
- `now_ms` is in milliseconds since 1970 and never goes back (the wall clock at the start, plus a monotonic clock):
  timers, timestamps of batches and DescribeQuorum use it.
- Everything in one Ready may leave as soon as its `quorum_state` is on disk. Flushes and freezes may run in a thread,
  one of each at a time; the replica goes on meanwhile. A flush that fails is the end of the process: it is never
  repeated.
- A message to a peer goes in the highest version both sides know; `fit_version` puts fields where older versions
  have them. A peer that lacks the API or the version is told by `Failed(id, UNSUPPORTED_VERSION)`, a lost connection or
  a timeout by `Failed(id)`. An answer that comes too late is ignored.
- The leader appends: `last_offset = raft.append(epoch, values, now_ms)`. The records are committed once
  `high_watermark > last_offset` in the same epoch. NotLeader is raised if this replica does not lead that epoch. If the
  leadership is lost first, nobody knows whether they will be committed.
- Listeners. `ready.high_watermark` is the offset below which everything is committed; it never goes back. A listener
  whose next offset is below `log.start_offset` (or that has read nothing, if there is a snapshot) loads
  `log.latest_snapshot` first; so after `snapshot_frozen` it reads a snapshot in place of records. It is told that this
  node leads only when it has read past `ready.leader.start_offset`, so that it decides on everything before.
- A snapshot of the state machine may be taken at any batch's end up to the high watermark: `raft.snapshot_voters(id)`
  says what control records belong into it, or raises. Deleting log below a snapshot is the log's own affair; so is
  opening: a log whose newest snapshot lies ahead of its end starts empty at that snapshot.
"""

from barnabas.core.raft.config import RaftConfig
from barnabas.core.raft.log import EpochEnd, RaftLog, SnapshotId, end_offset_for_epoch
from barnabas.core.raft.messages import (
    Answer,
    Answered,
    Asked,
    Failed,
    Flush,
    LeaderAndEpoch,
    Node,
    NotLeader,
    Ready,
    Send,
    UpgradeRefused,
    fit_version,
)
from barnabas.core.raft.raft import Raft
from barnabas.core.raft.records import QuorumState, SnapshotVoters
from barnabas.core.raft.voters import Endpoint, Endpoints, ReplicaKey, Voter, VoterSet

__all__ = [
    "Answer",
    "Answered",
    "Asked",
    "Endpoint",
    "Endpoints",
    "EpochEnd",
    "Failed",
    "Flush",
    "LeaderAndEpoch",
    "Node",
    "NotLeader",
    "QuorumState",
    "Raft",
    "RaftConfig",
    "RaftLog",
    "Ready",
    "ReplicaKey",
    "Send",
    "SnapshotId",
    "SnapshotVoters",
    "UpgradeRefused",
    "Voter",
    "VoterSet",
    "end_offset_for_epoch",
    "fit_version",
]
