"""Kafka's client properties become settings, or one sentence that names the property."""

from __future__ import annotations

import pytest

from barnabas.client.errors import InvalidSetting
from barnabas.client.settings import ClientSettings, parse_bootstrap_servers, read_properties, show_address


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        (" a:1 , b:2,", (("a", 1), ("b", 2))),
        ("kafka", (("kafka", 9092),)),
        ("[::1]:9094", (("::1", 9094),)),
        ("[::1]", (("::1", 9092),)),
        ("::1", (("::1", 9092),)),
        ("PLAINTEXT://broker:9093", (("broker", 9093),)),
    ],
)
def test_bootstrap_servers_are_hosts_with_ports(text: str, addresses: object) -> None:
    assert parse_bootstrap_servers(text) == addresses


@pytest.mark.parametrize(
    "text", ["", " , ", "host:", "host:port", "host:0", "host:70000", ":9092", "[::1", "[::1]9092"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^bootstrap\.servers "):
        parse_bootstrap_servers(text)


def test_an_ipv6_address_is_shown_as_it_is_written() -> None:
    assert show_address(("::1", 9092)) == "[::1]:9092"


def test_properties_become_settings() -> None:
    settings = ClientSettings.from_properties(
        {"bootstrap.servers": "ignored:1", "request.timeout.ms": " 7 ", "client.id": "anna", "acks": "1"},
        bootstrap_servers="used:2",
    )
    assert (settings.bootstrap_servers, settings.request_timeout_ms, settings.client_id) == ((("used", 2),), 7, "anna")
    assert settings.properties["acks"] == "1"
    assert settings.security.protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"request.timeout.ms": "soon"}, "request.timeout.ms must be a number, not 'soon'."),
        ({"request.timeout.ms": "-1"}, "request.timeout.ms must be between 0 and 2147483647, not -1."),
        (
            {"security.protocol": "TLS"},
            "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'.",
        ),
        ({"security.protocol": "SASL_SSL"}, r"sasl.kerberos.service.name is missing: GSSAPI, the default of"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "DIGEST-MD5"},
            "sasl.mechanism is DIGEST-MD5, which is not spoken here: use one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.oauthbearer.token.endpoint.url is missing: OAUTHBEARER needs an identity provider",
        ),
        (
            {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config is missing, and PLAIN needs a user name and a password.",
        ),
    ],
)
def test_nonsense_is_one_sentence_that_names_the_property(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{sentence}"):
        ClientSettings.from_properties(properties, bootstrap_servers="a:1")


def test_a_file_of_properties_is_read_or_named(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "client.properties"
    with pytest.raises(InvalidSetting, match=r"client\.properties cannot be read: No such file"):
        read_properties(path)
    path.write_text("security.protocol = SSL\nssl.truststore.certificates = a \\\n   b")
    assert read_properties(path) == {"security.protocol": "SSL", "ssl.truststore.certificates": "a b"}
    path.write_text("a=\\u12")
    with pytest.raises(InvalidSetting, match="four hexadecimal digits"):
        read_properties(path)
