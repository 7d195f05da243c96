"""Settings of secured listeners that cannot be used: one sentence each."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.core.metadata.state import MetadataImage
from barnabas.node.configuration import BrokerConfig, ConfigError
from barnabas.node.security.access import Access
from barnabas.node.security.audit import Audit
from barnabas.node.security.jaas import plain_passwords
from barnabas.node.security.listeners import logins_of, tls_of

BASE = {"node.id": "1", "process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}
MAP = "SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
SASL = {"listeners": "SASL_PLAINTEXT://:9092,CONTROLLER://:9093", "listener.security.protocol.map": MAP}
SSL = {"listeners": "SSL://:9092,CONTROLLER://:9093", "listener.security.protocol.map": MAP}
INSIDE = {"inter.broker.listener.name": "SASL_PLAINTEXT"}
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_anna="a b" user_bob=c;'
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def configured(keys: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.from_properties(BASE | keys)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (SASL | INSIDE, "the JAAS file is missing: GSSAPI on the listener SASL_PLAINTEXT needs the node's key table"),
        (
            SASL | INSIDE | {"sasl.enabled.mechanisms": "DIGEST-MD5"},
            "sasl.enabled.mechanisms=DIGEST-MD5 on the listener SASL_PLAINTEXT: none of these is spoken",
        ),
        (SASL | INSIDE | {"sasl.enabled.mechanisms": "PLAIN"}, "the JAAS file is missing: PLAIN on the listener"),
        (
            SASL
            | INSIDE
            | {"sasl.enabled.mechanisms": "PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config": "nonsense"},
            "listener.name.sasl_plaintext.plain.sasl.jaas.config cannot be read: must read: a login module",
        ),
        (SSL | {"inter.broker.listener.name": "SSL"}, "ssl.keystore.location: the listener SSL needs a private key"),
        (
            SSL | {"inter.broker.listener.name": "SSL", "ssl.keystore.location": "/nowhere.jks"},
            "ssl.keystore.location is /nowhere.jks, which cannot be read: No such file or directory.",
        ),
        (
            SSL | {"inter.broker.listener.name": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "ssl.enabled.protocols names neither TLSv1.2 nor TLSv1.3",
        ),
    ],
)
def test_a_listener_that_cannot_be_secured_is_told_in_a_sentence(
    keys: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    config = configured(keys)

    def secure() -> None:
        for endpoint in config.listeners:
            tls_of(config, endpoint)
            logins_of(config, endpoint, MetadataImage)

    with pytest.raises(ConfigError) as refused:
        secure()
    assert str(refused.value).startswith(sentence)


def test_passwords_come_from_the_listeners_key_or_from_a_jaas_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    assert plain_passwords({key: JAAS}, "SASL_PLAINTEXT") == {"anna": "a b", "bob": "c"}
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaServer {{\n  {JAAS}\n}};\nClient {{\n  a.B required user_x=y;\n}};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={file}")
    assert plain_passwords({}, "SASL_PLAINTEXT") == {"anna": "a b", "bob": "c"}


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"authorizer.class.name": "org.example.Authorizer"}, "authorizer.class.name=org.example.Authorizer is not"),
        ({"authorizer.class.name": STANDARD, "super.users": "root"}, "super.users has 'root', which is no principal"),
    ],
)
def test_an_authorizer_that_cannot_be_is_told_in_a_sentence(keys: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Access.of(configured(keys), Audit(1))
    assert str(refused.value).startswith(sentence)


def test_older_names_of_the_authorizer_are_known() -> None:
    assert Access.of(configured({}), Audit(1)) is None
    older = configured({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})
    assert Access.of(older, Audit(1)) is not None
