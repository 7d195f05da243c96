"""What a new leader of the quorum appends before it answers for anything: the records an empty log begins with.

Features are never raised here: a cluster has those that its directories were formatted with, and those that somebody
set since (`kafka-features`)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.core.metadata.records import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FORMATTED_FEATURES,
    LEVEL_WRITTEN,
    METADATA_VERSION,
)
from barnabas.core.metadata.state import BROKER_RESOURCE, MetadataImage
from barnabas.wire.records import metadata as wire
from barnabas.wire.schema import Record


def bootstrap_records() -> list[Record]:
    """What a directory that we format begins with: the level, and the features whose APIs exist."""
    levels = {METADATA_VERSION: LEVEL_WRITTEN, **FORMATTED_FEATURES}
    return [wire.FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def bootstrap(image: MetadataImage, records: Sequence[Record], min_insync_replicas: int = 1) -> list[Record]:
    """The records that an empty log begins with, and the end of a transaction that a crash left open.

    `min_insync_replicas` is what this node is configured with: where eligible leaders are tracked, it becomes the
    cluster's, since all nodes must agree on it.
    """
    open_ended = [wire.AbortTransactionRecord(reason="Controller failover")] if image.transaction is not None else []
    if METADATA_VERSION in image.features:
        return [*open_ended]
    begin = wire.BeginTransactionRecord(name="Bootstrap records")
    is_tracked = any(
        isinstance(each, wire.FeatureLevelRecord)
        and each.name == ELIGIBLE_LEADER_REPLICAS_VERSION
        and each.feature_level > 0
        for each in records
    )
    agreed = [min_insync_record(min_insync_replicas)] if is_tracked else []
    return [*open_ended, begin, *records, *agreed, wire.EndTransactionRecord()]


def min_insync_record(replicas: int) -> wire.ConfigRecord:
    """The cluster's `min.insync.replicas`."""
    return wire.ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value=str(replicas)
    )
