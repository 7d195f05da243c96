"""Clients of other languages log in by every mechanism within TLS: kafkajs, and franz-go, which then reads in a group
of the consumer protocol and works records off in a share group.

franz-go's client is compiled, which takes a minute or two, only if BARNABAS_GO=1 says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from barnabas.client.certificates import make_certificates
from barnabas.testing import Node
from tests.support.go_programs import compiled

from .test_kafkajs import modules  # noqa: F401

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
USER, PASSWORD, TOPIC = "anna", "anna-secret", "orders"


class Secured:
    def __init__(self, directory: Path) -> None:
        make_certificates(directory, ["localhost", "127.0.0.1"], [], password="changeit", days=2)
        self.authority = directory / "ca.pem"
        key = generate_private_key(65537, 2048)
        public = json.loads(RSAAlgorithm.to_jwk(key.public_key())) | {"kid": "first", "use": "sig", "alg": "RS256"}
        keys = directory / "keys.json"
        keys.write_text(json.dumps({"keys": [public]}))
        now = int(time.time())
        claims = {"sub": USER, "iss": "works", "aud": "kafka", "iat": now, "exp": now + 600}
        self.token = jwt.encode(claims, key, algorithm="RS256", headers={"kid": "first"})
        self.node = Node(
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "ssl.keystore.location": str(directory / "server.p12"),
                "ssl.keystore.password": "changeit",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
                ),
                "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
                "sasl.oauthbearer.expected.issuer": "works",
                "sasl.oauthbearer.expected.audience": "kafka",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": f"User:ANONYMOUS;User:{USER}",
                "connection.failed.authentication.delay.ms": "10",
                "group.share.assignment.interval.ms": "0",
            }
        )

    @property
    def servers(self) -> str:
        return f"localhost:{self.node.ports['SASL_SSL']}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("secured"))
    with found.node as node:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}"})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(10)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([upsertion]).values():
                future.result(10)
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, "workers", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(10)
        yield found


def kafkajs(secured: Secured, modules: Path, password: str, token: str) -> dict[str, Any]:  # noqa: F811
    script = Path(__file__).with_name("kafkajs_secured.js")
    names = ",".join(mechanism.lower() for mechanism in MECHANISMS)
    told = subprocess.run(
        ["node", str(script), secured.servers, str(secured.authority), USER, password, names, token],
        env=os.environ | {"NODE_PATH": str(modules)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    answer: dict[str, Any] = json.loads(told.stdout)
    return answer


def test_kafkajs_logs_in_by_every_mechanism(secured: Secured, modules: Path) -> None:  # noqa: F811
    right = kafkajs(secured, modules, PASSWORD, secured.token)
    assert {mechanism: TOPIC in topics for mechanism, topics in right.items()} == {
        mechanism.lower(): True for mechanism in MECHANISMS
    }, right
    wrong = kafkajs(secured, modules, "wrong", secured.token + "x")
    # kafkajs takes the challenge that says what is wrong with a token for a success, and asks on; nobody answers.
    refused = {mechanism.lower(): "KafkaJSSASLAuthenticationError" for mechanism in MECHANISMS}
    assert wrong == refused | {"oauthbearer": "KafkaJSConnectionClosedError"}


@pytest.fixture(scope="module")
def franz_go() -> Path:
    return compiled(Path(__file__).parent / "franz_go")


def test_franz_go_logs_in_reads_in_a_group_and_works_off_a_queue(secured: Secured, franz_go: Path) -> None:
    order = {
        "Servers": secured.servers,
        "Authority": str(secured.authority),
        "User": USER,
        "Password": PASSWORD,
        "Token": secured.token,
        "Topic": TOPIC,
        "Group": "readers",
        "Shares": "workers",
        "Mechanisms": MECHANISMS,
    }
    told = subprocess.run(
        [str(franz_go)], input=json.dumps(order), capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {
        "produced": dict.fromkeys(MECHANISMS, ""),
        "refused": dict.fromkeys(MECHANISMS, True),
        "read": sorted(MECHANISMS),
        "worked": sorted(MECHANISMS),
        "again": [],
    }
