"""The REST proxy behind passwords and tokens, and acting at the cluster as who asks it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

from barnabas.testing import Node
from barnabas.testing.rest import Rest

from .conftest import Api

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
V2 = "application/vnd.kafka.binary.v2+json"


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def api(key: RSAPrivateKey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """anna may write and read orders, and is in the users' file as well as dora, who has tokens; carl only reads."""
    directory = tmp_path_factory.mktemp("callers")
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": "k1", "use": "sig"}
    (directory / "keys").write_text(json.dumps({"keys": [public]}))
    (directory / "users").write_text("anna: a,admin\nbob: b,admin\ncarl: c,read\n")
    node_config = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory}/keys",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} required user_anna="a" user_bob="b" '
        'user_carl="c" user_proxy="p";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:proxy",
    }
    with Node(node_config) as node:
        rest_config: dict[str, Any] = {
            "client.security.protocol": "SASL_PLAINTEXT",
            "client.sasl.mechanism": "PLAIN",
            "client.sasl.jaas.config": f'{PLAIN} required username="proxy" password="p";',
            "authentication.method": "BASIC,BEARER",
            "authentication.users.file": directory / "users",
            "oauthbearer.jwks.endpoint.url": f"file://{directory}/keys",
            "confluent.rest.auth.propagate.method": "SASL",
            "consumer.instances.topic.replication.factor": "1",
        }
        allow(node, directory)
        with Rest(f"127.0.0.1:{node.ports['SASL_PLAINTEXT']}", config=rest_config) as rest:
            yield Api(rest.port)


def allow(node: Node, directory: Path) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.ports['PLAINTEXT']}"})
    admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
    rights = [(ResourceType.TOPIC, "orders", AclOperation.WRITE), (ResourceType.TOPIC, "orders", AclOperation.READ)]
    rights.append((ResourceType.GROUP, "readers", AclOperation.READ))
    entries = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user in ("anna", "dora")
        for kind, name, operation in rights
    ]
    for future in admin.create_acls(entries).values():
        future.result(30)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(key: RSAPrivateKey, user: str, *roles: str, lifetime_s: int = 600, key_id: str = "k1") -> str:
    now = int(time.time())
    claims = {"sub": user, "iat": now, "exp": now + lifetime_s, "groups": list(roles)}
    return "Bearer " + jwt.encode(claims, key, "RS256", headers={"kid": key_id})


def write(api: Api, authorization: str) -> tuple[int, Any]:
    value = base64.b64encode(b"x").decode()
    records = {"records": [{"value": value}]}
    return api("POST", "/topics/orders", records, Content_Type=V2, Authorization=authorization)


def wrote(status: int, answer: Any) -> bool:
    return status == 200 and answer["offsets"][0].get("error_code") is None


def test_the_cluster_sees_who_asks_the_proxy(api: Api, key: RSAPrivateKey) -> None:
    assert wrote(*write(api, basic("anna", "a")))
    assert not wrote(*write(api, basic("bob", "b")))
    assert wrote(*write(api, bearer(key, "dora", "admin")))
    _, named = api("GET", "/topics", Authorization=bearer(key, "dora"))
    assert named == ["orders"]
    assert api("GET", "/topics", Authorization=basic("bob", "b"))[1] == []


def test_roles_and_bad_tokens(api: Api, key: RSAPrivateKey) -> None:
    stranger = generate_private_key(65537, 2048)
    assert write(api, basic("carl", "c"))[0] == 403
    assert write(api, bearer(key, "dora", "read"))[0] == 403
    for authorization in (
        "",
        basic("anna", "wrong"),
        bearer(stranger, "dora", "admin"),
        bearer(key, "dora", "admin", lifetime_s=-600),
        bearer(key, "dora", "admin", key_id="k2"),
        "Bearer x",
        "Bearer " + jwt.encode({"sub": "dora", "exp": time.time() + 600}, None, "none"),
    ):
        assert write(api, authorization)[0] == 401


def test_a_consumer_is_its_makers(api: Api) -> None:
    anna, bob = basic("anna", "a"), basic("bob", "b")
    form = {"name": "c1", "format": "binary", "auto.offset.reset": "earliest"}
    assert api("POST", "/consumers/readers", form, Authorization=anna)[0] == 200
    path = "/consumers/readers/instances/c1"
    assert api("POST", f"{path}/subscription", {"topics": ["orders"]}, Authorization=anna)[0] == 204
    assert write(api, anna)[0] == 200
    assert api("GET", f"{path}/records", Authorization=bob, Accept=V2)[0] == 404
    deadline = time.monotonic() + 60
    while not (found := api("GET", f"{path}/records", Authorization=anna, Accept=V2))[1]:
        assert time.monotonic() < deadline
    assert (found[0], found[1][0]["topic"]) == (200, "orders")
    assert api("DELETE", path, Authorization=anna)[0] == 204
