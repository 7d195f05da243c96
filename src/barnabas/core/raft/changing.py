"""Changes of the voters, one at a time: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, and the upgrade to allow them.

A change is a VotersRecord in the log, and counts from the moment it is appended. The next one waits until it is
committed: then any majority of the new voters meets any majority of the old ones.
"""

from __future__ import annotations

from barnabas.core.raft import answers, leading
from barnabas.core.raft.config import CAUGHT_UP_WITHIN_MS
from barnabas.core.raft.following import note_success
from barnabas.core.raft.learning import Heard, hear_answer
from barnabas.core.raft.messages import Asked, Node, NotLeader, UpgradeRefused
from barnabas.core.raft.replica import Replica
from barnabas.core.raft.state import Follower, Leader, VoterChange
from barnabas.core.raft.voters import Endpoints, ReplicaKey, Voter, VoterSet
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages import add_raft_voter as add
from barnabas.wire.messages import remove_raft_voter as remove
from barnabas.wire.messages import update_raft_voter as update
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.records import raft as records
from barnabas.wire.schema import Record, Response
from barnabas.wire.uuids import ZERO_UUID

KRAFT_VERSION = "kraft.version"

Refusal = tuple[ErrorCode, str | None]


# The leader's side.


def handle_add(replica: Replica, asked: Asked, request: add.AddRaftVoterRequest, now_ms: int) -> None:
    refusal = _add(replica, asked, request, now_ms)
    if refusal is not None:
        replica.answer(asked.request_id, answers.voter_change(request, *refusal))


def _add(replica: Replica, asked: Asked, request: add.AddRaftVoterRequest, now_ms: int) -> Refusal | None:
    leader = replica.state
    error = leading.validate(replica, replica.epoch)
    if error != ErrorCode.NONE or not isinstance(leader, Leader):
        return error, None
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    endpoints = Endpoints.of((each.name, each.host, each.port) for each in request.listeners)
    name = replica.config.listener_name
    address = endpoints.address(name)
    if address is None:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Add voter request didn't include the endpoint for the default listener {name}",
        )
    refusal = _may_change(replica, leader, now_ms)
    if refusal is not None:
        return refusal
    if replica.voters.get(key.id) is not None:
        message = f"The voter id for {key.id} is already part of the set of voters {replica.voters.ids}."
        return ErrorCode.DUPLICATE_VOTER, message
    request_api_versions = ApiVersionsRequest(client_software_name="barnabas", client_software_version="1")
    if not replica.send(Node(key.id, *address), request_api_versions, now_ms):
        return ErrorCode.REQUEST_TIMED_OUT, f"New voter {key.id} is not ready to receive requests"
    deadline_ms = now_ms + replica.config.request_timeout_ms
    leader.change = VoterChange(asked, deadline_ms, key, endpoints, request.ack_when_committed)
    return None


def _may_change(replica: Replica, leader: Leader, now_ms: int) -> Refusal | None:
    """What must hold before any change: no other is pending, and all before it are committed."""
    expire_change(replica, leader, now_ms)
    timed_out = ErrorCode.REQUEST_TIMED_OUT
    if leader.change is not None:
        return timed_out, "Request timed out waiting for leader to handle previous voter change request"
    if leader.high_watermark is None:
        return timed_out, "Request timed out waiting for leader to establish HWM and fence previous voter changes"
    if replica.history.kraft_version == 0:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support changing voters because the {KRAFT_VERSION} feature is 0",
        )
    if not is_last_change_committed(replica, leader):
        return timed_out, "Request timed out waiting for voters to commit the latest voter change"
    return None


def is_last_change_committed(replica: Replica, leader: Leader) -> bool:
    offset = replica.history.last_offset
    return offset is not None and leader.high_watermark is not None and offset < leader.high_watermark


def handle_api_versions(replica: Replica, source: Node, response: ApiVersionsResponse, now_ms: int) -> bool:
    leader = replica.state
    if not isinstance(leader, Leader):
        return True
    change = leader.change
    if change is None or change.added is None or change.added.id != source.id or change.last_offset is not None:
        return True
    if response.error_code != ErrorCode.NONE:
        return fail_api_versions(replica, source, ErrorCode(response.error_code))
    version = replica.history.kraft_version
    ranges = [
        (each.min_version, each.max_version) for each in response.supported_features if each.name == KRAFT_VERSION
    ]
    if not ranges or not ranges[0][0] <= version <= ranges[0][1]:
        message = f"Aborted add voter operation for {change.added.id}: its {KRAFT_VERSION} range lacks {version}"
        _end_change(replica, leader, ErrorCode.INVALID_REQUEST, message)
        return True
    if not _is_caught_up(leader, change.added, now_ms):
        message = f"Aborted add voter operation for {change.added.id} since it is lagging behind"
        _end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, message)
        return True
    voters = replica.voters.add(Voter(change.added, change.endpoints, ranges[0]))
    assert voters is not None
    change.last_offset = _append_voters(replica, leader, voters, now_ms)
    if not change.ack_when_committed:
        replica.answer(change.asked.request_id, answers.voter_change(change.asked.body, ErrorCode.NONE))
        change.is_answered = True
    return True


def fail_api_versions(replica: Replica, source: Node, error: ErrorCode) -> bool:
    leader = replica.state
    change = leader.change if isinstance(leader, Leader) else None
    if change is not None and change.last_offset is None and change.added is not None and change.added.id == source.id:
        assert isinstance(leader, Leader)
        message = f"Aborted add voter operation since API_VERSIONS returned an error {error.name}"
        _end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, message)
    return False


def _is_caught_up(leader: Leader, key: ReplicaKey, now_ms: int) -> bool:
    progress = leader.observers.get(key)
    if progress is None or progress.last_caught_up_ms < 0:
        return False
    return progress.last_fetch_ms > now_ms - CAUGHT_UP_WITHIN_MS


def handle_remove(replica: Replica, asked: Asked, request: remove.RemoveRaftVoterRequest, now_ms: int) -> None:
    refusal = _remove(replica, asked, request, now_ms)
    if refusal is not None:
        replica.answer(asked.request_id, answers.voter_change(request, *refusal))


def _remove(replica: Replica, asked: Asked, request: remove.RemoveRaftVoterRequest, now_ms: int) -> Refusal | None:
    leader = replica.state
    error = leading.validate(replica, replica.epoch)
    if error != ErrorCode.NONE or not isinstance(leader, Leader):
        return error, None
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id < 0 or key.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
    refusal = _may_change(replica, leader, now_ms)
    if refusal is not None:
        return refusal
    voters = replica.voters.remove(key)
    if voters is None:
        return ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {key.id} from the set of voters {replica.voters.ids}"
    last_offset = _append_voters(replica, leader, voters, now_ms)
    leader.change = VoterChange(asked, now_ms + replica.config.request_timeout_ms, last_offset=last_offset)
    return None


def handle_update(replica: Replica, asked: Asked, request: update.UpdateRaftVoterRequest, now_ms: int) -> None:
    error = _update(replica, request, now_ms)
    replica.answer(asked.request_id, answers.update_voter(replica, asked, error))


def _update(replica: Replica, request: update.UpdateRaftVoterRequest, now_ms: int) -> ErrorCode:
    leader = replica.state
    error = leading.validate(replica, request.current_leader_epoch)
    if error != ErrorCode.NONE or not isinstance(leader, Leader):
        return error
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    endpoints = Endpoints.of((each.name, each.host, each.port) for each in request.listeners)
    versions = (
        request.k_raft_version_feature.min_supported_version,
        request.k_raft_version_feature.max_supported_version,
    )
    version = replica.history.kraft_version
    if key.id < 0 or key.directory_id == ZERO_UUID or endpoints.address(replica.config.listener_name) is None:
        return ErrorCode.INVALID_REQUEST
    if not 0 <= versions[0] <= versions[1]:
        return ErrorCode.INVALID_REQUEST
    refusal = _may_change(replica, leader, now_ms)
    if refusal is not None and refusal[0] != ErrorCode.UNSUPPORTED_VERSION:
        return refusal[0]
    if not versions[0] <= version <= versions[1]:
        return ErrorCode.INVALID_REQUEST
    voter = Voter(key, endpoints, versions)
    if version > 0:
        voters = replica.voters.update(voter)
        if voters is None:
            return ErrorCode.VOTER_NOT_FOUND
        _append_voters(replica, leader, voters, now_ms)
    else:
        if leader.updated_voters is None:
            return ErrorCode.REQUEST_TIMED_OUT
        updated = leader.updated_voters.update(voter, any_directory=True)
        if updated is None:
            return ErrorCode.VOTER_NOT_FOUND
        leader.updated_voters = updated
    if key.id != leader.key.id:
        leading.note_contact(replica, leader, key, now_ms)
    return ErrorCode.NONE


def upgrade(replica: Replica, epoch: int, version: int, now_ms: int, *, validate_only: bool = False) -> int | None:
    """Raises the kraft.version; the offset of the record, None if there is nothing to do."""
    leader = replica.state
    if not isinstance(leader, Leader) or leader.epoch != epoch:
        raise NotLeader(f"this node does not lead epoch {epoch}")
    current = replica.history.kraft_version
    if version == current:
        return None
    if version < current:
        raise UpgradeRefused(f"{KRAFT_VERSION} cannot go down from {current} to {version}")
    voters = leader.updated_voters
    if voters is None or voters.ids != replica.voters.ids:
        raise UpgradeRefused(f"{KRAFT_VERSION} cannot be raised to {version}: the voters are changing")
    lacking = [voter.key.id for voter in voters if not voter.supports(version) or voter.key.directory_id == ZERO_UUID]
    if lacking:
        raise UpgradeRefused(
            f"{KRAFT_VERSION} cannot be raised to {version}: voters {lacking} do not say they support it"
        )
    if validate_only:
        return None
    leader.updated_voters = None
    control: list[Record] = [records.KRaftVersionRecord(k_raft_version=version)]
    if voters != replica.voters:
        control.append(voters.to_record())
    last_offset = replica.append_control(control, now_ms)
    leader.set_voters(replica.voters)
    leading.log_grew(replica, leader)
    return last_offset


def _append_voters(replica: Replica, leader: Leader, voters: VoterSet, now_ms: int) -> int:
    if len(leader.voters) == 1:
        # A sole voter has no time limit for its check-quorum; it begins with the second one.
        leader.check_quorum_deadline_ms = now_ms + replica.config.check_quorum_timeout_ms
    last_offset = replica.append_control([voters.to_record()], now_ms)
    leader.set_voters(voters)
    leading.log_grew(replica, leader)
    return last_offset


def settle(replica: Replica, leader: Leader) -> None:
    """Ends a change that is committed by now."""
    change = leader.change
    if leader.high_watermark is None:
        return
    if change is not None and change.last_offset is not None and change.last_offset < leader.high_watermark:
        _end_change(replica, leader, ErrorCode.NONE)
    if not replica.is_voter and is_last_change_committed(replica, leader):
        leader.is_resigning = True  # It was removed.


def expire_change(replica: Replica, leader: Leader, now_ms: int) -> None:
    if leader.change is not None and leader.change.deadline_ms <= now_ms:
        _end_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT)


def _end_change(replica: Replica, leader: Leader, error: ErrorCode, message: str | None = None) -> None:
    change, leader.change = leader.change, None
    if change is not None and not change.is_answered:
        replica.answer(change.asked.request_id, answers.voter_change(change.asked.body, error, message))


# The follower's side.


def build_update(replica: Replica) -> update.UpdateRaftVoterRequest:
    config = replica.config
    return update.UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=replica.epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[update.Listener(name=name, host=host, port=port) for name, host, port in config.endpoints],
        k_raft_version_feature=update.KRaftVersionFeature(
            min_supported_version=config.kraft_versions[0], max_supported_version=config.kraft_versions[1]
        ),
    )


def build_join(replica: Replica) -> add.AddRaftVoterRequest | remove.RemoveRaftVoterRequest:
    """Of a controller that is to join by itself: first the voter goes that had its id and another directory."""
    config = replica.config
    former = replica.voters.get(config.node_id)
    if former is not None:
        return remove.RemoveRaftVoterRequest(
            cluster_id=config.cluster_id, voter_id=former.key.id, voter_directory_id=former.key.directory_id
        )
    return add.AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=config.request_timeout_ms,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[add.Listener(name=name, host=host, port=port) for name, host, port in config.endpoints],
        ack_when_committed=False,
    )


def handle_update_answer(replica: Replica, response: update.UpdateRaftVoterResponse, now_ms: int) -> bool:
    error, leader = ErrorCode(response.error_code), response.current_leader
    endpoints = replica.voters.endpoints(leader.leader_id)
    if leader.leader_id >= 0 and leader.host:
        endpoints = Endpoints.of([(replica.config.listener_name, leader.host, leader.port)])
    heard = hear_answer(replica, error, leader.leader_id, leader.leader_epoch, endpoints, now_ms)
    if heard is not Heard.GO_ON:
        return heard is Heard.DONE
    if error not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION) or not isinstance(replica.state, Follower):
        return False
    replica.state.has_updated_leader = True
    note_success(replica, replica.state, now_ms)
    return True


def handle_join_answer(replica: Replica, response: Response, now_ms: int) -> bool:
    assert isinstance(response, add.AddRaftVoterResponse | remove.RemoveRaftVoterResponse)
    expected = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)
    if isinstance(replica.state, Follower):
        replica.state.update_voter_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    return response.error_code in expected
