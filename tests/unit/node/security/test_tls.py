"""The names of clients that show certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from barnabas.node.security.tls import distinguished_name

KEY = generate_private_key(SECP256R1())
NOW = datetime.now(UTC)


def certificate(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    signed = x509.CertificateBuilder(name, name, KEY.public_key(), 1, NOW, NOW + timedelta(days=1)).sign(KEY, SHA256())
    return signed.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("attributes", "shown"),
    [
        (
            [(NameOID.COUNTRY_NAME, "SE"), (NameOID.ORGANIZATION_NAME, "Works, Inc"), (NameOID.COMMON_NAME, "anna")],
            "CN=anna,O=Works\\, Inc,C=SE",
        ),
        (
            [(NameOID.COMMON_NAME, "anna"), (NameOID.EMAIL_ADDRESS, "a@b.se")],
            "1.2.840.113549.1.9.1=#16066140622e7365,CN=anna",
        ),
    ],
)
def test_a_distinguished_name_is_written_as_java_writes_it(
    attributes: list[tuple[x509.ObjectIdentifier, str]], shown: str
) -> None:
    assert distinguished_name(certificate(*attributes)) == shown
