"""Changes of configs become records, or a refusal for exactly the resource that deserves it."""

from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.core.controller.configs import Changes, Operation, alter, alter_incrementally
from barnabas.core.metadata.state import ConfigResource, MetadataImage
from barnabas.wire.errors import ErrorCode, KafkaError
from barnabas.wire.messages import alter_configs, incremental_alter_configs
from barnabas.wire.records.metadata import ClearElrRecord, ConfigRecord, FeatureLevelRecord, TopicRecord
from barnabas.wire.uuids import Uuid

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation
Change = tuple[str, int, str | None]


class Rules:
    """Lists are called list*, values must not be bad, and nobody may touch what is forbidden."""

    def authorize(self, resource: ConfigResource) -> None:
        if resource[1] == "forbidden":
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")

    def is_list(self, resource: ConfigResource, key: str) -> bool:
        return key.startswith("list")

    def default(self, resource: ConfigResource, key: str) -> str | None:
        return "x,y" if key == "list.default" else None

    def check(
        self, image: MetadataImage, resource: ConfigResource, configs: Mapping[str, str], altered: Changes
    ) -> None:
        self.checked = dict(configs), dict(altered)
        if "bad" in configs.values():
            raise KafkaError(ErrorCode.INVALID_CONFIG, "bad")


@pytest.fixture
def image() -> MetadataImage:
    image = MetadataImage()
    for name in ("t", "u", "forbidden"):
        image.replay(TopicRecord(name=name, topic_id=Uuid.random()))
    image.configs[TOPIC, "t"] = {"a": "1", "b": "2", "list": "p,q"}
    image.configs[BROKER, "1"] = {"k": "v"}
    return image


def resource(kind: int, name: str, *changes: Change) -> Any:
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    return incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def changed(image: MetadataImage, *resources: Any, validate_only: bool = False, rules: Rules | None = None) -> Any:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=list(resources), validate_only=validate_only
    )
    decision = alter_incrementally(image, request, rules or Rules())
    return brief(decision.records), [(each.error_code, each.error_message) for each in decision.response.responses]


def replaced(image: MetadataImage, kind: int, name: str, **configs: str | None) -> Any:
    given = [alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    one = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    decision = alter(image, alter_configs.AlterConfigsRequest(resources=[one]), Rules())
    return brief(decision.records), [each.error_code for each in decision.response.responses]


def brief(records: Any) -> list[tuple[str, str, str | None]]:
    assert all(isinstance(record, ConfigRecord) for record in records)
    return [(record.resource_name, record.name, record.value) for record in records]


FINE = (ErrorCode.NONE, None)


def test_keys_are_set_and_deleted(image: MetadataImage) -> None:
    records, errors = changed(image, resource(TOPIC, "t", ("a", SET, "9"), ("b", DELETE, None), ("c", SET, "3")))
    assert records == [("t", "a", "9"), ("t", "b", None), ("t", "c", "3")]
    assert errors == [FINE]


def test_what_stays_the_same_is_not_written(image: MetadataImage) -> None:
    records, errors = changed(image, resource(TOPIC, "t", ("a", SET, "1"), ("none", DELETE, None)))
    assert (records, errors) == ([], [FINE])


def test_a_brokers_key_is_written_even_if_it_stays_the_same(image: MetadataImage) -> None:
    records, _ = changed(image, resource(BROKER, "1", ("k", SET, "v")))
    assert records == [("1", "k", "v")]


@pytest.mark.parametrize(
    ("key", "operation", "value", "result"),
    [
        ("list", APPEND, "r", "p,q,r"),
        ("list", APPEND, "q,r", "p,q,r"),
        ("list", SUBTRACT, "p", "q"),
        ("list", SUBTRACT, "p,q", ""),
        ("list.default", APPEND, "z", "x,y,z"),
        ("list.default", SUBTRACT, "x", "y"),
        ("list.none", APPEND, "z", "z"),
        ("list.none", APPEND, "z,", "z"),
        ("list.none", SUBTRACT, "z", ""),
        ("list.default", SUBTRACT, "z", "x,y"),
        ("list.default", APPEND, "", "x,y,"),
        ("list.default", APPEND, ",", "x,y"),
    ],
)
def test_lists_grow_and_shrink(image: MetadataImage, key: str, operation: int, value: str, result: str) -> None:
    records, errors = changed(image, resource(TOPIC, "t", (key, operation, value)))
    assert (records, errors) == ([("t", key, result)], [FINE])


def test_only_lists_grow_and_shrink(image: MetadataImage) -> None:
    assert changed(image, resource(TOPIC, "t", ("a", APPEND, "1"))) == (
        [],
        [(ErrorCode.INVALID_CONFIG, "Can't APPEND to key a because its type is not LIST.")],
    )


def test_of_one_resource_all_changes_are_made_or_none(image: MetadataImage) -> None:
    records, errors = changed(image, resource(TOPIC, "t", ("a", SET, "9"), ("c", SET, "bad")))
    assert (records, errors) == ([], [(ErrorCode.INVALID_CONFIG, "bad")])


def test_a_bad_resource_does_not_hinder_the_others(image: MetadataImage) -> None:
    records, errors = changed(
        image,
        resource(TOPIC, "t", ("a", SET, "bad")),
        resource(TOPIC, "u", ("a", SET, "1")),
        resource(TOPIC, "forbidden", ("a", SET, "1")),
        resource(TOPIC, "absent", ("a", SET, "1")),
    )
    assert records == [("u", "a", "1")]
    assert [code for code, _ in errors] == [
        ErrorCode.INVALID_CONFIG,
        ErrorCode.NONE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_validating_writes_nothing(image: MetadataImage) -> None:
    assert changed(image, resource(TOPIC, "t", ("a", SET, "9")), validate_only=True) == ([], [FINE])


def test_the_rules_see_what_the_configs_would_become(image: MetadataImage) -> None:
    rules = Rules()
    changed(image, resource(TOPIC, "t", ("a", DELETE, None), ("c", SET, "3")), rules=rules)
    assert rules.checked == ({"b": "2", "c": "3", "list": "p,q"}, {"a": None, "c": "3"})


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "t", [("a", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("list", APPEND, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("a", SET, "1"), ("a", DELETE, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("a", 9, "1")], ErrorCode.UNKNOWN_SERVER_ERROR),
        (BROKER, "1", [("a", 9, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "", [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "a b", [("a", SET, "1")], ErrorCode.INVALID_TOPIC_EXCEPTION),
        (GROUP, "", [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", [("a", SET, "1")], ErrorCode.INVALID_REQUEST),
        (0, "x", [], ErrorCode.INVALID_REQUEST),
        (99, "x", [], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_change_is_refused(
    image: MetadataImage, kind: int, name: str, changes: list[Change], code: ErrorCode
) -> None:
    records, errors = changed(image, resource(kind, name, *changes))
    assert (records, [error for error, _ in errors]) == ([], [code])


def test_a_resource_named_twice_is_changed_not_at_all(image: MetadataImage) -> None:
    records, errors = changed(
        image,
        resource(TOPIC, "t", ("a", SET, "8")),
        resource(TOPIC, "u", ("a", SET, "1")),
        resource(TOPIC, "t", ("b", SET, "9")),
    )
    assert records == [("u", "a", "1")]
    assert [code for code, _ in errors] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


def test_groups_and_subscriptions_need_not_exist(image: MetadataImage) -> None:
    records, errors = changed(
        image, resource(GROUP, "g", ("a", SET, "1")), resource(CLIENT_METRICS, "m", ("b", SET, "2"))
    )
    assert records == [("g", "a", "1"), ("m", "b", "2")]
    assert errors == [FINE, FINE]


def test_too_many_records_are_refused_whole(image: MetadataImage) -> None:
    changes: list[Change] = [(f"key{number}", SET, "1") for number in range(10_001)]
    with pytest.raises(KafkaError) as refusal:
        changed(image, resource(TOPIC, "t", *changes))
    assert refusal.value.code == ErrorCode.POLICY_VIOLATION


def test_the_older_api_replaces_everything(image: MetadataImage) -> None:
    assert replaced(image, TOPIC, "t", a="1", c="3") == (
        [("t", "b", None), ("t", "list", None), ("t", "c", "3")],
        [ErrorCode.NONE],
    )


def test_the_older_api_empties_a_resource(image: MetadataImage) -> None:
    records, _ = replaced(image, TOPIC, "t")
    assert records == [("t", "a", None), ("t", "b", None), ("t", "list", None)]


def test_the_older_api_needs_values_and_a_topic(image: MetadataImage) -> None:
    assert replaced(image, TOPIC, "t", a=None) == ([], [ErrorCode.INVALID_REQUEST])
    assert replaced(image, TOPIC, "absent", a="1") == ([], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert replaced(image, TOPIC, "t", a="bad") == ([], [ErrorCode.INVALID_CONFIG])


@pytest.mark.parametrize(("kind", "name", "cleared"), [(TOPIC, "t", "t"), (BROKER, "", "")])
def test_another_minimum_of_in_sync_replicas_forgets_eligible_leaders(
    image: MetadataImage, kind: int, name: str, cleared: str
) -> None:
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource(kind, name, ("min.insync.replicas", SET, "2"), ("c", SET, "3"))]
    )
    assert len(alter_incrementally(image, request, Rules()).records) == 2
    image.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    assert alter_incrementally(image, request, Rules()).records[2:] == [ClearElrRecord(topic_name=cleared)]
