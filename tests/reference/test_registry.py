"""The registry over Apache Kafka, asked by Confluent's Java client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from barnabas.testing.registry import Registry
from tests.support import reference, reference_libs

JAVA = Path(__file__).parent / "java" / "RegistryClient.java"


def test_confluents_java_client_over_apache_kafka(apache_kafka: reference.ApacheKafka) -> None:
    try:
        classpath = f"{reference_libs.registry_libs()}/*"
        command = [reference_libs.java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath]
    except reference_libs.ReferenceUnavailable as reason:
        pytest.skip(str(reason))
    own = {"kafkastore.topic": "_schemas_of_java", "schema.registry.group.id": "registry-of-java"}
    with Registry(apache_kafka.bootstrap_servers, own) as registry:
        told = subprocess.run(
            [*command, str(JAVA), registry.url, "users-value"], capture_output=True, text=True, timeout=90, check=False
        )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "same": True,
        "latest": 1,
        "version": 1,
        "versions": [1],
        "subjects": ["users-value"],
        "level": "FULL",
        "compatible": False,
        "verbose": True,
        "mode": "READWRITE",
        "refused": [409, 409],
        "deleted": [1],
        "gone": [1],
    }
