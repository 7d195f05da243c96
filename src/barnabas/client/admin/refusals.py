"""What a broker's error code means, in words, where its answer holds none."""

from __future__ import annotations

from barnabas.client.errors import Refused, known_code
from barnabas.wire.errors import ErrorCode

WORDS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The broker failed and does not say why; its log may tell.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is outside of what the partition holds.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The cluster has no such topic or partition.",
    ErrorCode.UNKNOWN_TOPIC_ID: "The cluster has no topic with this id.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "This is not a name a topic may have.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "The topic exists already.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The cluster does not allow this to you.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The topic is not open to you.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The group is not open to you.",
    ErrorCode.POLICY_VIOLATION: "A policy of the cluster or the topic forbids this.",
    ErrorCode.SECURITY_DISABLED: "The brokers have no authorizer, so there are no access control lists.",
    ErrorCode.NOT_CONTROLLER: "The controller has changed; try again.",
    ErrorCode.REQUEST_TIMED_OUT: "The broker did not finish in time.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition has the wanted leader already.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No replica that may lead is available.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "Nothing is being moved.",
}


def words(code: int, message: str | None = None) -> str:
    known = known_code(code)
    return message or WORDS.get(known) or f"The broker refused with {known.name}."


def check(code: int, message: str | None = None) -> None:
    """Raises Refused for any code but 0."""
    if code:
        raise Refused(code, words(code, message))
