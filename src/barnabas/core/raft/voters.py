"""Who votes: replicas, where they listen, sets of voters, and how the set changed along the log.

A replica is a node and the directory of its metadata log. A directory id that is not known (zero) matches any: so it is
with voters from the configuration. The voters that count are those of the last VotersRecord in the log, committed or
not; the configured ones only while there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from barnabas.wire.records import raft as wire
from barnabas.wire.uuids import ZERO_UUID, Uuid


class ReplicaKey(NamedTuple):
    id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        return self.id == other.id and self.directory_id in (ZERO_UUID, other.directory_id)


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int


class Endpoints(tuple[Endpoint, ...]):
    """Sorted by listener name, which is in upper case."""

    __slots__ = ()

    @classmethod
    def of(cls, endpoints: Iterable[tuple[str, str, int]]) -> Self:
        return cls(sorted(Endpoint(name.upper(), host, port) for name, host, port in endpoints))

    def address(self, listener_name: str) -> tuple[str, int] | None:
        wanted = listener_name.upper()
        return next(((host, port) for name, host, port in self if name == wanted), None)


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    endpoints: Endpoints = field(default_factory=Endpoints)
    kraft_versions: tuple[int, int] = (0, 0)

    def supports(self, kraft_version: int) -> bool:
        return self.kraft_versions[0] <= kraft_version <= self.kraft_versions[1]


class VoterSet:
    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in sorted(voters, key=lambda voter: voter.key)}

    @classmethod
    def static(cls, listener_name: str, addresses: Iterable[tuple[int, str, int]]) -> Self:
        """`controller.quorum.voters`: only ids and addresses are known."""
        return cls(Voter(ReplicaKey(id), Endpoints.of([(listener_name, host, port)])) for id, host, port in addresses)

    @classmethod
    def from_record(cls, record: wire.VotersRecord) -> Self:
        return cls(
            Voter(
                ReplicaKey(each.voter_id, each.voter_directory_id),
                Endpoints.of((endpoint.name, endpoint.host, endpoint.port) for endpoint in each.endpoints),
                (each.k_raft_version_feature.min_supported_version, each.k_raft_version_feature.max_supported_version),
            )
            for each in record.voters
        )

    def to_record(self) -> wire.VotersRecord:
        return wire.VotersRecord(
            voters=[
                wire.VotersVoter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[wire.Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints],
                    k_raft_version_feature=wire.KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0], max_supported_version=voter.kraft_versions[1]
                    ),
                )
                for voter in self
            ]
        )

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __contains__(self, key: ReplicaKey) -> bool:
        voter = self._voters.get(key.id)
        return voter is not None and voter.key.matches(key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({list(self)})"

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    def get(self, voter_id: int) -> Voter | None:
        return self._voters.get(voter_id)

    def endpoints(self, voter_id: int) -> Endpoints:
        voter = self._voters.get(voter_id)
        return voter.endpoints if voter is not None else Endpoints()

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self) == 1 and key in self

    def needs_update(self, voter: Voter) -> bool:
        """`voter` is one of us, but not as it stands here."""
        return voter.key in self and self._voters[voter.key.id] != voter

    def add(self, voter: Voter) -> VoterSet | None:
        return None if voter.key.id in self._voters else VoterSet([*self, voter])

    def remove(self, key: ReplicaKey) -> VoterSet | None:
        """None if this very replica is not in it, or is the last."""
        voter = self._voters.get(key.id)
        if voter is None or voter.key != key or len(self) == 1:
            return None
        return VoterSet(each for each in self if each.key.id != key.id)

    def update(self, voter: Voter, *, any_directory: bool = False) -> VoterSet | None:
        if voter.key.id not in self._voters or not (any_directory or voter.key in self):
            return None
        return VoterSet([*(each for each in self if each.key.id != voter.key.id), voter])


class VoterHistory:
    """The voters and the kraft.version at every offset of the log, uncommitted records included."""

    def __init__(self, static_voters: VoterSet) -> None:
        self._static = static_voters
        self._voters: list[tuple[int, VoterSet]] = []
        self._versions: list[tuple[int, int]] = []

    @property
    def last(self) -> VoterSet:
        return self._voters[-1][1] if self._voters else self._static

    @property
    def last_offset(self) -> int | None:
        """Where the last VotersRecord is; -1 if it is in the snapshot that the node was formatted with."""
        return self._voters[-1][0] if self._voters else None

    @property
    def kraft_version(self) -> int:
        return self._versions[-1][1] if self._versions else 0

    def voters_before(self, end_offset: int) -> VoterSet | None:
        return next((voters for offset, voters in reversed(self._voters) if offset < end_offset), None)

    def kraft_version_before(self, end_offset: int) -> int:
        return next((version for offset, version in reversed(self._versions) if offset < end_offset), 0)

    def add_voters(self, offset: int, voters: VoterSet) -> None:
        self._voters.append((offset, voters))

    def add_kraft_version(self, offset: int, version: int) -> None:
        self._versions.append((offset, version))

    def clear(self) -> None:
        self._voters.clear()
        self._versions.clear()

    def truncate(self, end_offset: int) -> None:
        self._voters = [entry for entry in self._voters if entry[0] < end_offset]
        self._versions = [entry for entry in self._versions if entry[0] < end_offset]
