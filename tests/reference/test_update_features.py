"""UpdateFeatures: what is refused; nothing is changed in the session's servers.

Kafka would go below level 25, which we do not know: not compared.
"""

from pathlib import Path
from typing import Any

import pytest

from barnabas.testing import Node
from barnabas.wire.errors import ErrorCode
from barnabas.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support import reference
from tests.support.reference_exchange import Side

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update(*features: tuple[str, int, int], validate_only: bool = True) -> UpdateFeaturesRequest:
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in features
    ]
    return UpdateFeaturesRequest(timeout_ms=15_000, feature_updates=updates, validate_only=validate_only)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "feature",
    [
        ("no.such.feature", 1, UPGRADE),
        ("no.such.feature", 0, SAFE_DOWNGRADE),
        ("metadata.version", 25, UPGRADE),
        ("metadata.version", 25, SAFE_DOWNGRADE),
        ("metadata.version", 99, UPGRADE),
        ("metadata.version", 24, UPGRADE),
        ("metadata.version", 20, SAFE_DOWNGRADE),
        ("metadata.version", 3, UNSAFE_DOWNGRADE),
        ("metadata.version", 0, UNSAFE_DOWNGRADE),
        ("metadata.version", -1, UPGRADE),
        ("metadata.version", 26, 0),
        ("metadata.version", 26, 9),
        ("kraft.version", 1, UPGRADE),
        ("kraft.version", 0, SAFE_DOWNGRADE),
        ("kraft.version", 5, UPGRADE),
        ("transaction.version", 2, UPGRADE),
        ("transaction.version", 3, UPGRADE),
        ("transaction.version", -1, UPGRADE),
        ("transaction.version", 1, UPGRADE),
    ],
)
def test_levels_that_are_asked_for(both: Any, version: int, feature: tuple[str, int, int]) -> None:
    both.same(update(feature), version)


@pytest.mark.parametrize("kind", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
@pytest.mark.parametrize("level", [24, 25, 29])
def test_there_is_no_way_back_from_the_last_level_that_changed_records(both: Any, kind: int, level: int) -> None:
    both.same(update(("metadata.version", level, kind)), 2, ignoring=["error_message"])
    assert [answer.error_code for answer in both.answers] == [ErrorCode.INVALID_UPDATE_VERSION] * len(both.answers)


def test_an_upgrade_that_would_do(both: Any) -> None:
    both.same(update(("metadata.version", 26, UPGRADE)), 2)
    both.same(update(("metadata.version", 30, UPGRADE)), 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_nothing_asked(both: Any, version: int) -> None:
    both.same(UpdateFeaturesRequest(timeout_ms=15_000), version)


@pytest.mark.parametrize(("level", "allow"), [(99, False), (24, False), (24, True), (25, False), (0, True)])
def test_the_first_version_knows_only_whether_a_downgrade_is_allowed(both: Any, level: int, allow: bool) -> None:
    updates = [FeatureUpdateKey(feature="metadata.version", max_version_level=level, allow_downgrade=allow)]
    if level == 24 and allow:
        updates[0].feature = "no.such.feature"
    both.same(UpdateFeaturesRequest(timeout_ms=15_000, feature_updates=updates), 0)


def test_a_feature_twice(both: Any) -> None:
    both.same(update(("metadata.version", 26, UPGRADE), ("metadata.version", 27, UPGRADE)), 2)


def test_a_good_and_a_bad_one(both: Any) -> None:
    both.same(update(("metadata.version", 26, UPGRADE), ("no.such.feature", 1, UPGRADE)), 1)
    both.same(update(("metadata.version", 26, UPGRADE), ("no.such.feature", 1, UPGRADE)), 2)


def test_kafka_opens_a_directory_whose_level_we_have_raised(tmp_path: Path, apache_kafka: Any) -> None:
    with Node(data_dir=tmp_path / "data") as node, Side("Barnabas", node) as side:
        side.create_topic("before", partitions=2)
        answer: Any = side.ask(update(("metadata.version", 30, UPGRADE), validate_only=False), 2)
        assert answer.error_code == ErrorCode.NONE
        side.create_topic("after", partitions=2)
        ids = side.topic_id("before"), side.topic_id("after")
        node.stop()
        kafka = reference.ApacheKafka(
            directory=tmp_path / "kafka", data_dir=node.data_dir, port=node.port, controller_port=node.controller_port
        )
        with kafka, Side("Apache Kafka", kafka) as other:
            for name in ("before", "after"):
                other.wait_for_leaders(name, 2)
            assert (other.topic_id("before"), other.topic_id("after")) == ids
            answer = other.ask(update(("metadata.version", 29, SAFE_DOWNGRADE)), 2)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
