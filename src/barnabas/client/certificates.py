"""Certificates for a small installation: an authority of one's own, one certificate for brokers, one for each client.

Everything is written as PEM, PKCS12 and JKS, so that whatever a client reads is there. Private keys are readable by
their owner only. An authority that is there already is kept, so that clients can be added later.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from barnabas.client.key_stores import INTEGRITY_PHRASE, JKS_KEY_OID, JKS_MAGIC

KEY_BITS = 2048
AUTHORITY = "Barnabas CA"
SERVER = "server"


class Owned(NamedTuple):
    key: RSAPrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def make_certificates(
    directory: Path, hosts: Sequence[str], users: Sequence[str], *, password: str, days: int
) -> list[Path]:
    """Returns the files that were written. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    authority = _authority(directory, days, written)
    certificate = PKCS12Certificate(authority.certificate, b"ca")
    trusted = serialize_java_truststore([certificate], BestAvailableEncryption(password.encode()))
    _write(directory / "truststore.p12", trusted, written)
    _write(directory / "truststore.jks", jks([("ca", authority.certificate)], None, password), written)
    _write_owned(directory, SERVER, _issue(authority, SERVER, days, hosts), authority, password, written)
    for user in users:
        _write_owned(directory, user, _issue(authority, user, days, ()), authority, password, written)
    return written


def _authority(directory: Path, days: int, written: list[Path]) -> Owned:
    key_file, certificate_file = directory / "ca.key", directory / "ca.pem"
    if key_file.exists() and certificate_file.exists():
        key = load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(key, RSAPrivateKey)
        return Owned(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))
    key = generate_private_key(65537, KEY_BITS)
    name = _name(AUTHORITY)
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    authority = Owned(key, certificate)
    _write(key_file, authority.key_pem, written, is_secret=True)
    _write(certificate_file, authority.certificate_pem, written)
    return authority


def _issue(authority: Owned, name: str, days: int, hosts: Sequence[str]) -> Owned:
    key = generate_private_key(65537, KEY_BITS)
    issuer = authority.certificate.subject
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = x509.KeyUsage(True, False, True, False, False, False, False, False, False)
    builder = (
        _builder(_name(hosts[0] if hosts else name), issuer, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses if hosts else uses[1:]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    return Owned(key, builder.sign(authority.key, SHA256()))


def _builder(subject: x509.Name, issuer: x509.Name, key: RSAPrivateKey, days: int) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(minutes=5)
    number = x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key.public_key(), number, begin, begin + timedelta(days))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_owned(
    directory: Path, name: str, owned: Owned, authority: Owned, password: str, written: list[Path]
) -> None:
    _write(directory / f"{name}.key", owned.key_pem, written, is_secret=True)
    _write(directory / f"{name}.pem", owned.certificate_pem + authority.certificate_pem, written)
    protection = BestAvailableEncryption(password.encode())
    chain = [authority.certificate]
    store = serialize_key_and_certificates(name.encode(), owned.key, owned.certificate, chain, protection)
    _write(directory / f"{name}.p12", store, written, is_secret=True)
    _write(directory / f"{name}.jks", jks([], (name, owned, chain), password), written, is_secret=True)


def _write(path: Path, data: bytes, written: list[Path], *, is_secret: bool = False) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if is_secret else 0o644)
    with open(number, "wb") as file:
        file.write(data)
    written.append(path)


def jks(
    trusted: Sequence[tuple[str, x509.Certificate]],
    owned: tuple[str, Owned, Sequence[x509.Certificate]] | None,
    password: str,
) -> bytes:
    """A key store as Java wrote them before it wrote PKCS12; `key_stores.py` tells how it is made up."""
    now_ms = int(time.time() * 1000)
    out = bytearray(struct.pack(">III", JKS_MAGIC, 2, len(trusted) + (owned is not None)))
    if owned is not None:
        alias, own, chain = owned
        protected = _protected(own.key, password)
        out += struct.pack(">I", 1) + _text(alias) + struct.pack(">QI", now_ms, len(protected)) + protected
        out += struct.pack(">I", 1 + len(chain))
        for each in (own.certificate, *chain):
            out += _certificate(each)
    for alias, each in trusted:
        out += struct.pack(">I", 2) + _text(alias.lower()) + struct.pack(">Q", now_ms) + _certificate(each)
    digest = hashlib.sha1(password.encode("utf-16-be") + INTEGRITY_PHRASE + out, usedforsecurity=False).digest()
    return bytes(out + digest)


def _protected(key: RSAPrivateKey, password: str) -> bytes:
    plain = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    wide, salt = password.encode("utf-16-be"), os.urandom(20)
    digest, stream = salt, b""
    while len(stream) < len(plain):
        digest = hashlib.sha1(wide + digest, usedforsecurity=False).digest()
        stream += digest
    masked = bytes(left ^ right for left, right in zip(plain, stream, strict=False))
    check = hashlib.sha1(wide + plain, usedforsecurity=False).digest()
    algorithm = _der(0x30, JKS_KEY_OID + b"\x05\x00")
    return _der(0x30, algorithm + _der(0x04, salt + masked + check))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _certificate(certificate: x509.Certificate) -> bytes:
    data = certificate.public_bytes(Encoding.DER)
    return _text("X.509") + struct.pack(">I", len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data
