"""`quorum-state`: the epoch this node is in and whom it voted for, in Kafka's JSON, replaced whole and fsynced.

Version 1 belongs to quorums whose voters are in the log (kraft.version 1), version 0 to those whose voters are
configured; it is written as it was found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.node.metadata.errors import StartError
from barnabas.node.storage.files import write_atomically
from barnabas.wire.uuids import ZERO_UUID, Uuid

FILE_NAME = "quorum-state"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    leader_id: int = -1
    epoch: int = 0
    voted_id: int = -1
    voted_directory_id: Uuid = ZERO_UUID
    static_voters: tuple[int, ...] = ()
    data_version: int = 1

    def to_json(self) -> str:
        state: dict[str, Any] = {"leaderId": self.leader_id, "leaderEpoch": self.epoch, "votedId": self.voted_id}
        if self.data_version == 0:
            voters = [{"voterId": voter} for voter in self.static_voters]
            state = {"clusterId": "", **state, "appliedOffset": 0, "currentVoters": voters}
        else:
            state["votedDirectoryId"] = str(self.voted_directory_id)
        return json.dumps({**state, "data_version": self.data_version}, separators=(",", ":"))


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
    write_atomically(str(directory / FILE_NAME), state.to_json().encode())
