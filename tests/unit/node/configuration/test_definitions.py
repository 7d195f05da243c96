"""The tables hold together: every key is there once, its default is allowed, and somebody has said what it does."""

import subprocess
import sys

from barnabas.node.configuration.definition import READ_ONLY, to_text
from barnabas.node.configuration.definitions import (
    BROKER,
    client_metrics_definitions,
    dynamic_only_definitions,
    group_definitions,
    topic_definitions,
)

ALL = [
    *BROKER.values(),
    *topic_definitions().values(),
    *group_definitions().values(),
    *client_metrics_definitions().values(),
    *dynamic_only_definitions().values(),
]


def test_there_are_as_many_keys_as_kafka_has() -> None:
    of_kafka = [each for each in BROKER.values() if not each.name.startswith("barnabas.")]
    assert len(of_kafka) == 360
    assert len(list(BROKER)) == len(set(BROKER))
    assert len([each for each in of_kafka if each.internal]) == 20
    assert len(topic_definitions()) == 34
    assert len(group_definitions()) == 17


def test_a_default_is_a_value_its_key_may_have() -> None:
    for definition in ALL:
        text = to_text(definition.default)
        if text is not None:
            assert definition.parse(text) == definition.default, definition.name


def test_a_key_is_documented_in_one_sentence() -> None:
    for definition in ALL:
        assert definition.doc[0].isupper(), definition.name
        assert definition.doc.endswith("."), definition.name
        assert ". " not in definition.doc, definition.name


def test_topics_and_groups_fall_back_to_keys_that_brokers_have() -> None:
    for definition in (*topic_definitions().values(), *group_definitions().values()):
        for key, factor in definition.from_broker:
            assert BROKER[key].type <= definition.type
            assert factor >= 1


def test_a_topic_config_and_the_broker_key_behind_it_have_the_same_default() -> None:
    for definition in topic_definitions().values():
        for key, factor in definition.from_broker:
            default = BROKER[key].default
            if default is not None:
                assert definition.default == (default * factor if isinstance(default, int) else default), key


def test_segments_may_be_as_small_as_courses_make_them() -> None:
    assert topic_definitions()["segment.bytes"].parse("14") == 14
    assert BROKER["log.segment.bytes"].parse("14") == 14
    assert topic_definitions()["segment.ms"].parse("1") == 1


def test_what_can_be_changed_while_a_broker_runs() -> None:
    dynamic = {name for name, each in BROKER.items() if each.update is not READ_ONLY}
    assert {"log.retention.ms", "message.max.bytes", "max.connections", "num.io.threads"} <= dynamic
    assert not {"node.id", "log.dirs", "num.partitions", "log.retention.hours", "advertised.listeners"} & dynamic


def test_our_own_keys_are_shown_only_to_who_has_set_them() -> None:
    assert all(each.internal for each in BROKER.values() if each.name.startswith("barnabas."))


def test_an_unknown_key_is_no_key() -> None:
    assert BROKER.get("no.such.key") is None
    assert "ssl.no.such.key" not in BROKER


def test_a_node_starts_without_the_tables_of_tls_and_sasl() -> None:
    script = (
        "import sys\n"
        "from barnabas.node.configuration import BrokerConfig\n"
        "config = BrokerConfig.from_properties({'node.id': '1', 'log.dirs': '/tmp/x', 'num.partitions': '3'})\n"
        "assert config.num_partitions == 3\n"
        "print([name for name in ('tls', 'sasl', 'tiered', 'shares')"
        " if f'barnabas.node.configuration.definitions.{name}' in sys.modules])\n"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
