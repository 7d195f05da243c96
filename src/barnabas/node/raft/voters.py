"""Who the voters of the quorum are, as the log names them (kraft.version 1)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.metadata.state import Endpoint
from barnabas.wire.records import raft
from barnabas.wire.uuids import Uuid


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
