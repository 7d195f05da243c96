"""TLS and SASL settings."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from barnabas.client.errors import InvalidSetting
from barnabas.client.key_stores import pem_blocks
from barnabas.client.security import SecuritySettings, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nQUJD\nREVG\n-----END CERTIFICATE-----\n"
KEY = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
BROKEN_KEY = "-----BEGIN PRIVATE KEY-----\nR0hJ\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="anna" password="se cret;";', {"username": "anna", "password": "se cret;"}),
        (f"{PLAIN} required username='anna' password=plain ;", {"username": "anna", "password": "plain"}),
        (f'{PLAIN} required\n  username="a"\n  password="q\\"b\\\\";\n', {"username": "a", "password": 'q"b\\'}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_a_login_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == options


@pytest.mark.parametrize("text", ["", PLAIN, f'{PLAIN} required username="a"', f'{PLAIN} required user name="a";'])
def test_a_login_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^sasl\.jaas\.config must "):
        parse_jaas(text)


def test_a_login_needs_a_name_and_a_password() -> None:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'a.b.ScramLoginModule required username="anna";',
    }
    with pytest.raises(InvalidSetting, match=r"^sasl\.jaas\.config has no password\.$"):
        SecuritySettings.from_properties(properties)
    properties["sasl.jaas.config"] = 'a.b.ScramLoginModule required username="anna" password="x";'
    settings = SecuritySettings.from_properties(properties)
    assert (settings.mechanism, settings.username, settings.password) == ("SCRAM-SHA-512", "anna", "x")
    assert settings.uses_sasl
    assert not settings.uses_tls


def test_certificates_on_one_line_get_their_lines_back() -> None:
    one_line = " ".join((CERTIFICATE + KEY).split("\n"))
    assert [kind for kind, _ in pem_blocks(one_line)] == ["CERTIFICATE", "PRIVATE KEY"]
    assert pem_blocks(one_line)[0][1] == "-----BEGIN CERTIFICATE-----\nQUJDREVG\n-----END CERTIFICATE-----"


def test_key_and_certificates_come_from_files_or_from_the_properties(tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    path.write_text(KEY + CERTIFICATE)
    from_file = SecuritySettings.from_properties(
        {"security.protocol": "SSL", "ssl.keystore.location": str(path), "ssl.keystore.type": "PEM"}
    )
    inline = SecuritySettings.from_properties(
        {"security.protocol": "SSL", "ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": CERTIFICATE}
    )
    assert from_file == inline
    assert (inline.trusted_certificates, inline.verify_host_name) == (None, True)


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"ssl.truststore.location": "/dev/null"},
            r"ssl\.truststore\.location is /dev/null, which is no key store that can be read: it is neither JKS",
        ),
        ({"ssl.keystore.key": BROKEN_KEY}, r"ssl\.keystore\.key is no key store that can be read: its private key"),
        (
            {"ssl.truststore.location": "/nowhere.pem", "ssl.truststore.type": "PEM"},
            r"ssl\.truststore\.location is /nowhere\.pem, which cannot be read: No such file or directory\.",
        ),
        ({"ssl.truststore.certificates": KEY}, r"ssl\.truststore\.certificates holds no certificate\."),
        ({"ssl.keystore.key": KEY}, r"ssl\.keystore\.key has no certificate\."),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"ssl\.enabled\.protocols names neither TLSv1\.2"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_do(properties: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=f"^{sentence}"):
        SecuritySettings.from_properties({"security.protocol": "SSL"} | properties)


def test_certificates_that_are_none_are_found_when_the_context_is_made() -> None:
    settings = SecuritySettings.from_properties(
        {"security.protocol": "SSL", "ssl.truststore.certificates": CERTIFICATE}
    )
    with pytest.raises(InvalidSetting, match=r"^ssl\.truststore holds no certificate that can be read"):
        settings.ssl_context()
    settings = SecuritySettings.from_properties(
        {"security.protocol": "SSL", "ssl.keystore.key": KEY, "ssl.keystore.certificate.chain": CERTIFICATE}
    )
    with pytest.raises(InvalidSetting, match=r"^ssl\.keystore has no private key and certificate that fit"):
        settings.ssl_context()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-newkey", "rsa:1024"], "holds a key that OpenSSL takes for too short: RSA needs 2048 bits."),
        (["-newkey", "rsa:2048", "-sha1"], "holds a certificate that is signed with SHA-1 or MD5"),
    ],
)
def test_certificates_that_only_java_shows_are_told_of(options: list[str], sentence: str, tmp_path: Path) -> None:
    authority, own = ["-x509", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.pem"], ["-CA", "ca.pem", "-CAkey"]
    leaf = ["-x509", *own, "ca.key", "-subj", "/CN=localhost", *options, "-keyout", "own.key", "-out", "own.pem"]
    for arguments in (["-newkey", "rsa:2048", *authority], leaf):
        subprocess.run(["openssl", "req", "-nodes", *arguments], check=True, capture_output=True, cwd=tmp_path)
    key, chain = ((tmp_path / name).read_text() for name in ("own.key", "own.pem"))
    properties = {"security.protocol": "SSL", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    with pytest.raises(InvalidSetting, match=re.escape(f"ssl.keystore {sentence}")):
        SecuritySettings.from_properties(properties).ssl_context()


def test_kerberos_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(InvalidSetting, match=r"sasl.kerberos.service.name is missing"):
        SecuritySettings.from_properties(properties)
    with pytest.raises(InvalidSetting, match=re.escape("pip install barnabas[kerberos]")):
        SecuritySettings.from_properties(properties | {"sasl.kerberos.service.name": "kafka"})
