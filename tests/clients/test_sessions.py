"""Bearer tokens, and sessions that end: real clients log in by tokens that an identity provider has signed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import jwt
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from barnabas.client.connection import Connection
from barnabas.client.errors import AuthenticationFailed, ClientError
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from barnabas.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw import RawClient
from tests.tools.clusters import our_tool

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
ISSUER, AUDIENCE = "https://login.example", "kafka"
PLAIN_JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="anna-secret" user_bob="bob-secret";'
)


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def keys_file(key: RSAPrivateKey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("provider") / "keys.json"
    write_keys(file, key, "first")
    return file


def write_keys(file: Path, key: RSAPrivateKey, key_id: str) -> None:
    public = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    file.write_text(json.dumps({"keys": [public | {"kid": key_id, "use": "sig", "alg": "RS256"}]}))


@pytest.fixture(scope="module")
def node(keys_file: Path) -> Iterator[Node]:
    listeners = ("OAUTH", "UNSIGNED", "SHORT", "TOKENS")
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *listeners, "CONTROLLER")),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        + ",".join(f"{name}:SASL_PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url": keys_file.as_uri(),
        "listener.name.oauth.sasl.oauthbearer.expected.issuer": ISSUER,
        "listener.name.oauth.sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.clock.skew.seconds": "5",
        "listener.name.unsigned.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsigned.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.short.plain.sasl.jaas.config": PLAIN_JAAS,
        "listener.name.short.connections.max.reauth.ms": "1500",
        "listener.name.tokens.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.tokens.plain.sasl.jaas.config": PLAIN_JAAS,
        "delegation.token.secret.key": "secret-of-tokens",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Node(config) as node:
        yield node


def token(key: Any, *, algorithm: str = "RS256", headers: dict[str, str] | None = None, **claims: Any) -> str:
    now = int(time.time())
    said = {"sub": "anna", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600} | claims
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=algorithm, headers=headers or {"kid": "first"})


def settings(node: Node, listener: str, file: Path, text: str) -> ClientSettings:
    file.write_text(text)
    properties = {
        "bootstrap.servers": f"127.0.0.1:{node.ports[listener]}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "sasl.jaas.config": f"{MODULE} required;",
    }
    return ClientSettings.from_properties(properties)


def log_in(node: Node, file: Path, text: str, listener: str = "OAUTH") -> None:
    with Connection(("127.0.0.1", node.ports[listener]), settings(node, listener, file, text)) as connection:
        assert connection.request(MetadataRequest(topics=[])).brokers


def test_a_signed_token_lets_our_client_in(node: Node, key: RSAPrivateKey, tmp_path: Path) -> None:
    log_in(node, tmp_path / "token", token(key))


def wrong_tokens(key: RSAPrivateKey) -> dict[str, str]:
    other = generate_private_key(65537, 2048)
    now = int(time.time())
    return {
        "expired": token(key, exp=now - 10),
        "without an end": token(key, exp=None),
        "another issuer": token(key, iss="https://elsewhere.example"),
        "another audience": token(key, aud="other"),
        "without an audience": token(key, aud=None),
        "no user": token(key, sub=None),
        "not yet": token(key, nbf=now + 60),
        "a stranger's key": token(other),
        "a key nobody knows": token(other, headers={"kid": "other"}),
        "no signature": token(None, algorithm="none"),
        "a public key as the secret": token("x" * 64, algorithm="HS256"),
        "garbage": "a.b.c",
    }


def test_a_token_that_is_not_valid_lets_nobody_in(node: Node, key: RSAPrivateKey, tmp_path: Path) -> None:
    let_in = []
    for what, text in wrong_tokens(key).items():
        try:
            log_in(node, tmp_path / "token", text)
            let_in.append(what)
        except AuthenticationFailed:
            pass
    assert not let_in


def test_a_clock_may_be_a_little_off(node: Node, key: RSAPrivateKey, tmp_path: Path) -> None:
    log_in(node, tmp_path / "token", token(key, iat=int(time.time()) + 2, nbf=int(time.time()) + 2))


def test_unsigned_tokens_are_for_the_listener_that_names_them(node: Node, key: RSAPrivateKey, tmp_path: Path) -> None:
    unsigned = token(None, algorithm="none")
    log_in(node, tmp_path / "token", unsigned, "UNSIGNED")
    with pytest.raises(AuthenticationFailed):
        log_in(node, tmp_path / "token", token(key), "UNSIGNED")


def test_a_new_key_of_the_provider_is_read_when_a_token_names_it(
    node: Node, key: RSAPrivateKey, keys_file: Path, tmp_path: Path
) -> None:
    rotated = generate_private_key(65537, 2048)
    log_in(node, tmp_path / "token", token(key))
    write_keys(keys_file, rotated, "second")
    limit = time.monotonic() + 30
    try:
        while True:
            try:
                log_in(node, tmp_path / "token", token(rotated, headers={"kid": "second"}))
                return
            except ClientError:
                assert time.monotonic() < limit  # the keys are not read more than once a second
                time.sleep(0.3)
    finally:
        write_keys(keys_file, key, "first")
        while True:
            try:
                log_in(node, tmp_path / "token", token(key))
                break
            except ClientError:
                assert time.monotonic() < limit + 30
                time.sleep(0.3)


def test_other_clients_log_in_by_tokens(node: Node, key: RSAPrivateKey) -> None:
    servers = f"127.0.0.1:{node.ports['OAUTH']}"
    told: list[str] = []

    def give(config: str) -> tuple[str, float]:
        told.append(config)
        return token(key), time.time() + 600

    admin = AdminClient(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": give,
        }
    )
    admin.poll(0.1)
    assert admin.list_topics(timeout=20).brokers
    assert told

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token(key)

    async def brokers() -> int:
        client = aiokafka.AIOKafkaClient(
            bootstrap_servers=servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        await client.bootstrap()
        try:
            return len(client.cluster.brokers())
        finally:
            await client.close()

    assert asyncio.run(brokers()) == 1

    class PythonTokens(KafkaPythonTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token(key)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=PythonTokens(),
    )
    assert consumer.topics() is not None
    consumer.close()


def plain(node: Node, user: str = "anna") -> ClientSettings:
    login = (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="{user}-secret";'
    )
    return ClientSettings.from_properties(
        {
            "bootstrap.servers": f"127.0.0.1:{node.ports['SHORT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": login,
        }
    )


def authenticate(raw: RawClient, user: str) -> Any:
    raw.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return raw.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}-secret".encode()), 2)


def test_a_session_that_is_over_answers_nothing_but_a_login(node: Node) -> None:
    with RawClient(node.ports["SHORT"]) as raw:
        assert authenticate(raw, "anna").session_lifetime_ms == 1500
        assert raw.ask(MetadataRequest(topics=[]), 12).brokers
        time.sleep(1.6)
        assert authenticate(raw, "anna").error_code == 0  # the client logs in again, late
        assert raw.ask(MetadataRequest(topics=[]), 12).brokers
        time.sleep(1.6)
        with pytest.raises(ConnectionError):
            raw.ask(MetadataRequest(topics=[]), 12)


def test_who_logs_in_again_stays_who_it_is(node: Node) -> None:
    with RawClient(node.ports["SHORT"]) as raw:
        assert authenticate(raw, "anna").error_code == 0
        time.sleep(1.1)
        assert authenticate(raw, "bob").error_code == 58  # SASL_AUTHENTICATION_FAILED
        assert raw.is_closed_by_node()


def test_our_client_logs_in_again_by_itself(node: Node) -> None:
    with Connection(("127.0.0.1", node.ports["SHORT"]), plain(node)) as connection:
        for _ in range(4):
            assert connection.request(MetadataRequest(topics=[])).brokers
            time.sleep(1)


def test_librdkafka_logs_in_again_by_itself(node: Node) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{node.ports['SHORT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "anna",
            "sasl.password": "anna-secret",
        }
    )
    for _ in range(3):
        try:
            assert admin.list_topics(timeout=20).brokers
        except KafkaException as error:
            pytest.fail(str(error))
        time.sleep(1)


def tokens_tool(node: Node, file: Path, *arguments: str) -> tuple[str, str, int]:
    login = 'a.b.PlainLoginModule required username="anna" password="anna-secret";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    address = f"127.0.0.1:{node.ports['TOKENS']}"
    return our_tool(
        "barnabas", ["delegation-tokens", *arguments, "--bootstrap-server", address, "--command-config", str(file)], ""
    )


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_delegation_token_lets_its_bearer_in_as_its_owner(node: Node, tmp_path: Path, mechanism: str) -> None:
    created, errors, code = tokens_tool(node, tmp_path / "anna", "--create", "--max-life-time-period", "-1")
    assert (errors, code) == ("", 0)
    token_id, hmac, owner = created.splitlines()[-1].split()[:3]
    assert owner == "User:anna"

    def by_token(password: str) -> Connection:
        jaas = f'a.b.ScramLoginModule required username="{token_id}" password="{password}" tokenauth="true";'
        properties = {
            "bootstrap.servers": f"127.0.0.1:{node.ports['TOKENS']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
        }
        return Connection(("127.0.0.1", node.ports["TOKENS"]), ClientSettings.from_properties(properties))

    with by_token(hmac) as connection:
        # Who has logged in by a token gets no tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
        assert connection.request(DescribeDelegationTokenRequest(owners=None)).error_code == 64
    with pytest.raises(AuthenticationFailed):
        by_token(hmac[:-4] + "AAA=")
    described = tokens_tool(node, tmp_path / "anna", "--describe")[0]
    assert token_id in described
    expire = ["--expire", "--hmac", hmac, "--expiry-time-period", "-1"]
    assert tokens_tool(node, tmp_path / "anna", *expire)[2] == 0
    with pytest.raises(AuthenticationFailed):
        by_token(hmac)
