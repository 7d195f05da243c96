"""The documentation says what is so: keys that are honoured are read somewhere, and its tables are the code's."""

import re
from pathlib import Path

import barnabas
from barnabas.node.configuration.definitions import BROKER, topic_definitions
from barnabas.node.configuration.honoured import OWN_BROKER_KEYS, TOPIC_KEYS, broker_keys, rewrite

SOURCES = Path(barnabas.__file__).parent
DOCUMENT = SOURCES.parents[1] / "docs" / "configuration.md"
# Where a key is only defined, or passed on as it is.
CONFIGURATION = SOURCES / "node" / "configuration"
DEFINING = {CONFIGURATION / name for name in ("honoured.py", "broker.py", "given.py", "sources.py", "rules.py")}
# What listeners, directories and identity are made of is read in broker.py itself.
READ_WHERE_IT_IS_PARSED = {
    "broker.id",
    "controller.listener.names",
    "listener.security.protocol.map",
    "log.dir",
    "process.roles",
    # The same code reads both stores.
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.truststore.location",
    "ssl.truststore.password",
}
# What a log is told in other words (`LogConfig`'s derived fields).
DERIVED = {
    "cleanup.policy": "compacted",
    "compression.gzip.level": "compression_level",
    "compression.lz4.level": "compression_level",
    "compression.type": "target_compression",
    "compression.zstd.level": "compression_level",
    "internal.segment.bytes": "roll_bytes",
    "message.timestamp.type": "log_append_time",
    "segment.bytes": "roll_bytes",
}


def source_text() -> str:
    paths = [
        path
        for path in SOURCES.rglob("*.py")
        if path not in DEFINING and path.parent.name != "definitions" and path.name != "log_config.py"
    ]
    return "\n".join(path.read_text() for path in paths if "wire" not in path.parts and "testing" not in path.parts)


def test_honoured_keys_exist() -> None:
    assert all(key in BROKER for key in broker_keys())
    assert set(topic_definitions()) >= TOPIC_KEYS


def test_honoured_keys_of_brokers_are_read() -> None:
    text = source_text()
    for key in OWN_BROKER_KEYS - READ_WHERE_IT_IS_PARSED:
        assert re.search(rf"config\.{key.replace('.', '_')}\b", text) or f'"{key}"' in text, key


def test_honoured_configs_of_topics_are_read() -> None:
    text = source_text()
    for key in TOPIC_KEYS:
        field = DERIVED.get(key, key.replace(".", "_"))
        # The controller, which has no logs, asks for one by its name.
        assert re.search(rf"config\.{field}\b", text) or f'(topic, "{key}")' in text, key


def test_the_documentation_lists_the_keys_as_they_are() -> None:
    document = DOCUMENT.read_text()
    assert rewrite(document) == document, "python -m barnabas.node.configuration.honoured docs/configuration.md"
