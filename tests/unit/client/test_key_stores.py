"""Key stores that Java's keytool wrote."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from barnabas.client.key_stores import KeyStoreError, read_key_store

KINDS = ["JKS", "JCEKS", "PKCS12"]
Keytool = Callable[..., None]


@pytest.fixture(scope="module")
def keytool() -> Keytool:
    if shutil.which("keytool") is None:
        pytest.skip("keytool of a JDK is not on the path")

    def run(*arguments: str) -> None:
        subprocess.run(["keytool", *arguments], check=True, capture_output=True)

    return run


def own(keytool: Keytool, path: Path, kind: str, *, key_password: str = "changeit", algorithm: str = "RSA") -> bytes:
    options = ("-alias", "localhost", "-validity", "180", "-dname", "CN=localhost", "-keyalg", algorithm)
    passwords = ("-storepass", "changeit", "-keypass", key_password)
    keytool("-genkeypair", "-keystore", str(path), "-storetype", kind, *options, *passwords)
    return path.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_key_and_certificate_are_read_and_belong_together(keytool: Keytool, tmp_path: Path, kind: str) -> None:
    store = read_key_store(own(keytool, tmp_path / "server.jks", kind), "changeit")
    assert store.private_key is not None
    key = load_pem_private_key(store.private_key.encode(), None)
    (certificate,) = (load_pem_x509_certificate(each.encode()) for each in store.chain)
    assert certificate.public_key() == key.public_key()
    assert store.trusted == []


@pytest.mark.parametrize("kind", KINDS)
def test_trusted_certificates_are_read(keytool: Keytool, tmp_path: Path, kind: str) -> None:
    pem = tmp_path / "ca.pem"
    own(keytool, tmp_path / "ca.jks", "JKS", algorithm="EC")
    keytool(
        "-exportcert",
        "-rfc",
        "-alias",
        "localhost",
        "-keystore",
        str(tmp_path / "ca.jks"),
        "-storepass",
        "changeit",
        "-file",
        str(pem),
    )
    trust = tmp_path / "trust.jks"
    keytool(
        "-importcert",
        "-noprompt",
        "-alias",
        "ca",
        "-file",
        str(pem),
        "-keystore",
        str(trust),
        "-storetype",
        kind,
        "-storepass",
        "changeit",
    )
    store = read_key_store(trust.read_bytes(), "changeit")
    assert store.private_key is None
    (certificate,) = store.certificates
    assert load_pem_x509_certificate(certificate.encode()) == load_pem_x509_certificate(pem.read_bytes())


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
def test_a_key_may_have_a_password_of_its_own(keytool: Keytool, tmp_path: Path, kind: str) -> None:
    data = own(keytool, tmp_path / "server.jks", kind, key_password="another", algorithm="EC")
    assert read_key_store(data, "changeit", "another").private_key is not None
    with pytest.raises(KeyStoreError, match="password"):
        read_key_store(data, "changeit")


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_password_and_a_changed_or_short_file_are_told(keytool: Keytool, tmp_path: Path, kind: str) -> None:
    data = own(keytool, tmp_path / "server.jks", kind, algorithm="EC")
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    for wrong, password in ((data, "wrong"), (bytes(changed), "changeit"), (data[:-30], "changeit")):
        with pytest.raises(KeyStoreError):
            read_key_store(wrong, password)


def test_what_is_no_key_store_is_refused() -> None:
    for data in (b"", b"hello", bytes.fromhex("feedfeed00000002000000ff"), b"\x30\x00"):
        with pytest.raises(KeyStoreError):
            read_key_store(data, None)
