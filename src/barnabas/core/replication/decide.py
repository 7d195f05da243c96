"""What a replica answers to those who think they know its epoch, its history or how safe it is."""

from __future__ import annotations

from enum import Enum

from barnabas.wire.errors import ErrorCode

NO_LEADER_EPOCH = -1


def leader_epoch_error(ours: int, theirs: int) -> ErrorCode:
    """A client behind us must refresh its metadata; one ahead of us has to wait until we have heard of it too."""
    if theirs in (NO_LEADER_EPOCH, ours):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if theirs < ours else ErrorCode.UNKNOWN_LEADER_EPOCH


def diverges(fetched_epoch: int, fetch_offset: int, epoch: int, end_offset: int) -> bool:
    """Whether a fetcher, whose last record was of `fetched_epoch`, holds records that our log does not have.

    `epoch` and `end_offset`: our greatest epoch that is not above the fetched one, and where it ends.
    """
    return epoch < fetched_epoch or end_offset < fetch_offset


def truncation_offset(leaders: tuple[int, int], ours: tuple[int, int], log_end_offset: int) -> int:
    """Where a follower cuts its log when the leader says that the logs diverge.

    `leaders`: the epoch that the leader names, and where it ends there. `ours`: our greatest epoch that is not above
    it, and where it ends here, -1 where there is none. If that is an older one, we have records of an epoch that the
    leader has not: we cut at its end and ask again.
    """
    (leaders_epoch, leaders_end), (epoch, end_offset) = leaders, ours
    if epoch == NO_LEADER_EPOCH:
        return min(leaders_end, log_end_offset)
    if epoch == leaders_epoch:
        end_offset = min(end_offset, leaders_end)
    return min(end_offset, log_end_offset)


class Reaction(Enum):
    """What a leader does about an answer to its proposal of other in-sync replicas."""

    NONE = "none"  # the proposal is an old one
    DROP = "drop"  # nobody is proposed any more; what is committed stands
    AWAIT = "await"  # the metadata that is on its way decides
    RETRY = "retry"


def reaction(error: ErrorCode) -> Reaction:
    if error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED):
        return Reaction.DROP
    return Reaction.AWAIT if error in OVERTAKEN else Reaction.RETRY


# The controller knows newer metadata of the partition than the leader.
OVERTAKEN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
