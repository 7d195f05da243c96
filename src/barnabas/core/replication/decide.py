"""What a replica answers to those who think they know its epoch, its history or how safe it is."""

from __future__ import annotations

from barnabas.wire.errors import ErrorCode

NO_LEADER_EPOCH = -1
ACKS_ALL = -1


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


def has_enough_replicas(acks: int, in_sync: int, replicas: int, min_in_sync: int) -> bool:
    """A partition cannot have more in-sync replicas than replicas, so that many are enough."""
    return acks != ACKS_ALL or in_sync >= min(min_in_sync, replicas)
