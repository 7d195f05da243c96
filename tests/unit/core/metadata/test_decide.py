"""What a new leader of the quorum appends first."""

from __future__ import annotations

from barnabas.core.metadata import decide
from barnabas.core.metadata.state import MetadataImage
from barnabas.wire.records import metadata as wire

LEVEL = wire.FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_an_empty_log_begins_with_the_bootstrap_records_in_a_transaction() -> None:
    assert decide.bootstrap(MetadataImage(), [LEVEL]) == [
        wire.BeginTransactionRecord(name="Bootstrap records"),
        LEVEL,
        wire.EndTransactionRecord(),
    ]


def test_a_log_with_a_level_is_left_as_it_is() -> None:
    image = MetadataImage()
    image.replay(LEVEL)
    assert decide.bootstrap(image, [LEVEL]) == []


def test_a_transaction_that_a_crash_left_open_is_aborted_first() -> None:
    image = MetadataImage()
    image.replay(wire.BeginTransactionRecord())
    image.replay(LEVEL)
    records = decide.bootstrap(image, [LEVEL])
    assert [type(record) for record in records] == [
        wire.AbortTransactionRecord,
        wire.BeginTransactionRecord,
        wire.FeatureLevelRecord,
        wire.EndTransactionRecord,
    ]
    image.replay_all(records)
    assert image.features == {"metadata.version": 30}


def test_a_cluster_with_eligible_leaders_begins_with_its_own_minimum_of_in_sync_replicas() -> None:
    tracked = wire.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    records = decide.bootstrap(MetadataImage(), [LEVEL, tracked], min_insync_replicas=2)
    agreed = wire.ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2")
    assert records[1:] == [LEVEL, tracked, agreed, wire.EndTransactionRecord()]
