"""The files sink and source on a server that speaks S3 (moto), with a crash and with rotation in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.pipelines.connect.plane import turns as turns_module
from barnabas.pipelines.streams.state.remote import s3_options
from tests.support.object_store import ObjectStore, ObjectStoreMissing, object_store

Bench = Any
JSON = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    try:
        with object_store() as running:
            running.make_bucket("bucket")
            yield running
    except ObjectStoreMissing as reason:
        pytest.skip(str(reason))


def place(store: ObjectStore) -> dict[str, str]:
    return {"s3.bucket.name": "bucket", "store.url": store.endpoint, "s3.region": "us-east-1",
            "aws.access.key.id": "anna", "aws.secret.access.key": "secret", "value.converter": JSON,
            "value.converter.schemas.enable": "false"}  # fmt: skip


def send(bench: Bench, topic: str, numbers: range) -> None:
    with Producer(ClientSettings.from_properties({}, bootstrap_servers=bench.servers)) as producer:
        for number in numbers:
            producer.send(topic, json.dumps({"id": number}).encode(), partition=0)
        producer.flush()


def files(store: ObjectStore, topic: str) -> dict[str, list[int]]:
    system = S3FileSystem(**s3_options("bucket", store.settings))
    found = system.get_file_info(FileSelector(f"bucket/topics/{topic}", recursive=True))
    return {
        each.base_name: pq.read_table(each.path, filesystem=system).column("id").to_pylist()
        for each in sorted(found, key=lambda one: one.path)
        if each.is_file
    }


def test_a_crash_and_rotation_give_every_record_once_and_the_files_go_back_into_a_topic(
    bench: Bench, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(bench, "objects", range(10))
    sink = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "objects", "flush.size": "4",
            "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"} | place(store)  # fmt: skip
    bench.start("to-objects", sink)

    def dies(*_: Any) -> None:
        raise SystemError("killed before the commit")

    with monkeypatch.context() as patched:
        patched.setattr(turns_module, "commit_positions", dies)
        bench.turns("to-objects", rounds=1)
    assert bench.states("to-objects")[-1][0] == "FAILED"
    whole = {f"objects+0+000000000{at}.snappy.parquet": list(range(at, at + 4)) for at in (0, 4, 8)}
    assert files(store, "objects") == dict(list(whole.items())[:2])
    other = type(bench)(bench.servers)
    other.start("to-objects", sink)
    assert other.turns("to-objects", rounds=1) == 2, "the files of the lost turn are known"
    send(bench, "objects", range(10, 12))
    other.turns("to-objects", rounds=1)
    assert files(store, "objects") == whole
    back = {"connector.class": "io.confluent.connect.s3.source.S3SourceConnector", "topic.prefix": "back-",
            "format.class": "ParquetFormat"}  # fmt: skip
    other.start("from-objects", back | place(store), offsets_topic="object-offsets")
    assert other.turns("from-objects") == 12
    assert [json.loads(each)["id"] for each in bench.values("back-objects")] == list(range(12))
    assert other.turns("from-objects") == 0
    other.planner.close()
