"""The start of an epoch: what a node that has become the leader appends before it answers for anything.

First the leader change, with the voters where the log does not have them as they are; then, as one batch each, the
bootstrap records of an empty log, the registrations of controller and broker, features that the cluster is older than,
and the lead of the partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas.core.metadata import decide
from barnabas.core.metadata.records import SUPPORTED_FEATURES
from barnabas.core.metadata.state import Endpoint, MetadataImage
from barnabas.node.metadata.batches import build_batch, build_control_batch
from barnabas.wire.records import raft
from barnabas.wire.schema import Record
from barnabas.wire.uuids import Uuid

RECORDS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What this process is: with which ports it listens, what it can do, where it keeps its data."""

    incarnation_id: Uuid
    broker_endpoints: Sequence[Endpoint]
    controller_endpoints: Sequence[Endpoint]
    log_dirs: Sequence[Uuid]
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict(SUPPORTED_FEATURES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    node_id: int
    directory_id: Uuid
    epoch: int
    kraft_version: int
    level: int
    now_ms: int


class EpochStart:
    """Collects the first batches of an epoch and replays them into `image`, which must be the log's end so far."""

    def __init__(self, image: MetadataImage, term: Term) -> None:
        self.image = image
        self.batches: list[tuple[bytes, int]] = []  # with the offset at which each ends
        self.voters: raft.VotersRecord | None = None
        self.broker_epoch = -1
        self._term = term

    @property
    def end_offset(self) -> int:
        return self.image.offset + 1

    def append(
        self, registration: Registration, bootstrap_records: Sequence[Record], voters: raft.VotersRecord | None
    ) -> None:
        node_id, features = self._term.node_id, registration.features
        self._lead(registration, voters)
        self._records(decide.bootstrap(self.image, bootstrap_records))
        incarnation_id = registration.incarnation_id
        self._records(
            [decide.register_controller(node_id, incarnation_id, registration.controller_endpoints, features)]
        )
        self.broker_epoch = self.end_offset
        broker = decide.register_broker(
            node_id,
            incarnation_id,
            self.broker_epoch,
            registration.broker_endpoints,
            features,
            registration.log_dirs,
            registration.rack,
        )
        self._records([broker])
        self._records(decide.raise_features(self.image))
        for changes in _chunks(decide.lead_partitions(self.image, node_id)):
            self._records(changes)

    def _lead(self, registration: Registration, voters: raft.VotersRecord | None) -> None:
        voter = [raft.Voter(voter_id=self._term.node_id)]
        records: list[Record] = [
            raft.LeaderChangeMessage(leader_id=self._term.node_id, voters=voter, granting_voters=voter)
        ]
        self.voters = voters
        if self._term.kraft_version > 0:
            now = voters_record(self._term.node_id, self._term.directory_id, registration.controller_endpoints)
            if self.end_offset == 0:
                records.append(raft.KRaftVersionRecord(k_raft_version=self._term.kraft_version))
            if self.end_offset == 0 or now != voters:
                records.append(now)
                self.voters = now
        self._append(
            build_control_batch(records, base_offset=self.end_offset, epoch=self._term.epoch, now_ms=self._term.now_ms),
            len(records),
        )

    def _records(self, records: Sequence[Record]) -> None:
        if not records:
            return
        level = self.image.metadata_version or self._term.level
        data = build_batch(
            records, level, base_offset=self.end_offset, epoch=self._term.epoch, now_ms=self._term.now_ms
        )
        self.image.replay_all(records)
        self._append(data, len(records))

    def _append(self, data: bytes, count: int) -> None:
        self.image.offset += count
        self.batches.append((data, self.end_offset))
        self.image.epoch = self._term.epoch


def voters_record(node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]) -> raft.VotersRecord:
    return raft.VotersRecord(
        voters=[
            raft.VotersVoter(
                voter_id=node_id,
                voter_directory_id=directory_id,
                endpoints=[raft.Endpoint(name=each.name, host=each.host, port=each.port) for each in endpoints],
                k_raft_version_feature=raft.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
            )
        ]
    )


def _chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    listed = list(records)  # The image changes while the chunks are replayed.
    return iter([listed[start : start + RECORDS_PER_BATCH] for start in range(0, len(listed), RECORDS_PER_BATCH)])
