"""Encrypted topics as our clients and confluent-kafka see them, and a record key that is forgotten."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from barnabas.client.consumer import AssignedConsumer
from barnabas.client.encryption.envelope import HEADER
from barnabas.client.encryption.keys import KeyFile
from barnabas.client.encryption.shredding import RecordKeys
from barnabas.client.errors import InvalidSetting, UnreadableAnswer
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text(f"k1: {base64.b64encode(os.urandom(32)).decode()}\n")
    return path


def settings(node: Node, keys: Path, topic: str, **more: str) -> ClientSettings:
    given = {"barnabas.encryption.keys": f"file:{keys}", "barnabas.encryption.topics": topic, **more}
    return ClientSettings.from_properties({"bootstrap.servers": node.bootstrap_servers, **given})


def read(chosen: ClientSettings, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    with AssignedConsumer(chosen) as consumer:
        consumer.assign({(topic, 0): -2})
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < count:
            polled = consumer.poll(30_000)
            assert polled
            found += [(record.key, record.value) for record in polled]
        return found


def test_brokers_files_and_foreign_clients_see_ciphertext(node: Node, keys: Path) -> None:
    chosen = settings(node, keys, "customers,secret.*")
    with Producer(chosen) as producer:
        for topic in ("customers", "open"):
            producer.send(topic, b"a very private value", b"anna", [("h", b"1")]).result(30)
            producer.send(topic, None, b"bob").result(30)
        with pytest.raises(InvalidSetting, match="is not encrypted"):
            producer.send_many("secret.things", [b"x"])
    assert read(chosen, "customers", 2) == [(b"anna", b"a very private value"), (b"bob", None)]
    assert read(chosen, "open", 2) == [(b"anna", b"a very private value"), (b"bob", None)]
    foreign = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "foreign"})
    foreign.assign([TopicPartition("customers", 0, 0)])
    message = foreign.poll(30)
    foreign.close()
    assert message is not None
    assert message.key() == b"anna"
    assert b"private" not in (message.value() or b"")
    assert [name for name, _ in message.headers() or ()] == ["h", HEADER]
    files = {path.parent.name: path.read_bytes() for path in node.data_dir.glob("*/*.log")}
    assert b"very private" in files["open-0"]
    assert b"very private" not in files["customers-0"]


def test_without_the_key_a_value_is_not_read(node: Node, keys: Path, tmp_path: Path) -> None:
    with Producer(settings(node, keys, "locked")) as producer:
        producer.send("locked", b"value", b"k").result(30)
    other = tmp_path / "other"
    other.write_text(f"k2: {base64.b64encode(os.urandom(32)).decode()}\n")
    with pytest.raises(UnreadableAnswer, match=r"locked-0 at offset 0 cannot be decrypted: .* has no key 'k1'"):
        read(settings(node, other, "locked"), "locked", 1)


def test_a_record_key_that_is_forgotten_has_no_values_any_more(node: Node, keys: Path) -> None:
    chosen = settings(node, keys, "people", **{"barnabas.encryption.shred.topic": "_record_keys"})
    with Producer(chosen) as producer:
        for key, value in ((b"anna", b"1"), (b"bob", b"2"), (b"anna", b"3")):
            producer.send("people", value, key).result(30)
    assert read(chosen, "people", 3) == [(b"anna", b"1"), (b"bob", b"2"), (b"anna", b"3")]
    record_keys = RecordKeys(chosen, "_record_keys", KeyFile(keys))
    assert (record_keys.forget(b"anna"), record_keys.forget(b"anna")) == (1, 0)
    record_keys.close()
    assert read(chosen, "people", 3) == [(b"anna", None), (b"bob", b"2"), (b"anna", None)]
    with Producer(chosen) as producer:
        producer.send("people", b"4", b"anna").result(30)  # who comes back gets a new key
    assert read(chosen, "people", 4)[2:] == [(b"anna", None), (b"anna", b"4")]
