from __future__ import annotations

import pytest

from barnabas.client.errors import InvalidSetting
from barnabas.services.registry.levels import Level
from barnabas.services.registry.settings import RegistrySettings, from_environment, load_properties

KAFKA = {"kafkastore.bootstrap.servers": "PLAINTEXT://broker:29092"}


def test_the_docker_images_variables() -> None:
    environment = {
        "SCHEMA_REGISTRY_HOST_NAME": "schema-registry",
        "SCHEMA_REGISTRY_KAFKASTORE_BOOTSTRAP_SERVERS": "broker:29092",
        "SCHEMA_REGISTRY_LISTENERS": "http://0.0.0.0:8081",
        "SCHEMA_REGISTRY_HEAP_OPTS": "-Xmx1g",
        "SCHEMA_REGISTRY_LOG4J_ROOT_LOGLEVEL": "DEBUG",
        "PATH": "/bin",
    }
    assert from_environment(environment) == {
        "host.name": "schema-registry",
        "kafkastore.bootstrap.servers": "broker:29092",
        "listeners": "http://0.0.0.0:8081",
    }
    assert load_properties(None, environment, {"host.name": "other"})["host.name"] == "other"


def test_listeners_and_levels() -> None:
    settings = RegistrySettings.from_properties(
        KAFKA | {"listeners": "http://[::1]:9081,http://x:2", "schema.compatibility.level": "full_transitive"}
    )
    assert (settings.listen_host, settings.port, settings.level) == ("::1", 9081, Level.FULL_TRANSITIVE)
    assert settings.kafka.bootstrap_servers == (("broker", 29092),)
    assert RegistrySettings.from_properties(KAFKA).port == 8081


@pytest.mark.parametrize(
    "wrong",
    [
        {"ssl.keystore.location": "/nowhere.p12", "listeners": "https://x:8081"},
        {"listeners": "8081"},
        {"schema.compatibility.level": "sometimes"},
        {"kafkastore.bootstrap.servers": ""},
        {"kafkastore.timeout.ms": "soon"},
        {"authentication.method": "DIGEST"},
        {"response.http.headers.config": "drop X: y"},
        {"response.http.headers.config": "addDate Expires: tomorrow"},
        {"subject.search.max.limit": "0"},
    ],
)
def test_what_makes_no_sense_is_named(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidSetting) as raised:
        RegistrySettings.from_properties(KAFKA | wrong)
    assert raised.value.name == next(iter(wrong))


def test_headers_for_every_answer() -> None:
    text = 'add X-XSS-Protection: 1; mode=block, "add Cache-Control: no-cache, no-store, must-revalidate"'
    settings = RegistrySettings.from_properties(KAFKA | {"response.http.headers.config": text})
    assert settings.response_headers == (
        ("X-XSS-Protection", "1; mode=block"),
        ("Cache-Control", "no-cache, no-store, must-revalidate"),
    )


def test_limits_of_lists() -> None:
    settings = RegistrySettings.from_properties(
        KAFKA | {"subject.search.default.limit": "2", "subject.search.max.limit": "5"}
    )
    assert settings.limits["subject"] == (2, 5)
    assert settings.limits["schema"] == (1_000, 1_000)
    assert settings.limits["context"].default == 2**31 - 1
