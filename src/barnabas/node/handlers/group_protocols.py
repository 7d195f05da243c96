"""Whether a group protocol is on: its feature is finalized, and the broker's configuration names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.core.metadata.records import GROUP_VERSION, SHARE_VERSION, STREAMS_VERSION
from barnabas.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from barnabas.node.ports import Groups

SHARE_MEMBER_ID_MAX = 36  # characters of a UUID


def require_consumer_protocol(node: Groups) -> None:
    is_on = "consumer" in node.config.group_coordinator_rebalance_protocols
    if not is_on or node.image.features.get(GROUP_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def require_streams_protocol(node: Groups) -> None:
    is_on = "streams" in node.config.group_coordinator_rebalance_protocols
    if not is_on or node.image.features.get(STREAMS_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def require_share_protocol(node: Groups) -> None:
    """The feature alone decides, as in Kafka; the configuration may name the protocol where the feature is off."""
    is_on = "share" in node.config.group_coordinator_rebalance_protocols
    if not is_on and node.image.features.get(SHARE_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def checked_share_member_id(member_id: str | None) -> str:
    if not member_id or len(member_id) > SHARE_MEMBER_ID_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return member_id
