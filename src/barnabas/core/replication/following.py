"""What a follower does about one partition of an answer, and where it goes on if the leader does not have its offset.

    fetch -> records                 append them as they are, and fetch from the new end
          -> a diverging epoch       cut the log (`decide.truncation_offset`), and fetch again
          -> OFFSET_OUT_OF_RANGE     ask where the leader's log begins and ends: `resume`
          -> FENCED_LEADER_EPOCH     stop, until the metadata names a leader of a newer epoch
          -> another error           wait, and fetch again: the leader or we are behind the metadata
A fetch that was sent in an older leader epoch than the present one is forgotten, whatever it is answered with.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.wire.errors import ErrorCode

NO_EPOCH = -1


class Step(Enum):
    APPEND = "append"
    TRUNCATE = "truncate"
    FIND_RANGE = "find range"
    STOP = "stop"
    WAIT = "wait"
    FORGET = "forget"


def next_step(error_code: int, diverging_epoch: int, asked_epoch: int, present_epoch: int) -> Step:
    """`asked_epoch`: the leader epoch in which the fetch was sent."""
    if asked_epoch != present_epoch:
        return Step.FORGET
    if error_code == ErrorCode.NONE:
        return Step.TRUNCATE if diverging_epoch != NO_EPOCH else Step.APPEND
    if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return Step.FIND_RANGE
    return Step.STOP if error_code == ErrorCode.FENCED_LEADER_EPOCH else Step.WAIT


class Resume(NamedTuple):
    """Keep what is below `offset`, or, if `empties`, nothing at all and begin there."""

    offset: int
    empties: bool = False


def resume(leader_start_offset: int, leader_end_offset: int, end_offset: int) -> Resume:
    """Where a follower goes on whose end is not in the leader's log."""
    if leader_end_offset < end_offset:
        # An unclean election: what we have behind the leader's end is nobody's any more.
        return Resume(leader_end_offset)
    return Resume(leader_start_offset, empties=True) if leader_start_offset > end_offset else Resume(end_offset)
