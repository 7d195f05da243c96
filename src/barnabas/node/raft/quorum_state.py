"""`quorum-state`: the epoch this node is in and whom it voted for, in Kafka's JSON, replaced whole and fsynced.

Version 1 belongs to quorums whose voters are in the log (kraft.version 1), version 0 to those whose voters are
configured; it is written as it was found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from barnabas.core.raft import QuorumState
from barnabas.node.raft.errors import StartError
from barnabas.node.storage.directory.files import write_atomically
from barnabas.wire.uuids import ZERO_UUID, Uuid

FILE_NAME = "quorum-state"


def render(state: QuorumState) -> str:
    fields: dict[str, Any] = {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": state.voted_id}
    if state.data_version == 0:
        voters = [{"voterId": voter} for voter in state.static_voters]
        fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": voters}
    else:
        fields["votedDirectoryId"] = str(state.voted_directory_id)
    return json.dumps({**fields, "data_version": state.data_version}, separators=(",", ":"))


def read_quorum_state(directory: Path) -> QuorumState | None:
    path = directory / FILE_NAME
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_bytes())
        version = int(state["data_version"])
        return QuorumState(
            leader_id=int(state["leaderId"]),
            epoch=int(state["leaderEpoch"]),
            voted_id=int(state["votedId"]),
            voted_directory_id=Uuid.parse(state["votedDirectoryId"]) if version > 0 else ZERO_UUID,
            static_voters=tuple(int(voter["voterId"]) for voter in state.get("currentVoters") or ()),
            data_version=version,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StartError(f"{path} cannot be read: {error!r}") from error


def write_quorum_state(directory: Path, state: QuorumState) -> None:
    write_atomically(str(directory / FILE_NAME), render(state).encode())
