"""Key stores as Java writes them, read without Java: JKS, JCEKS, PKCS12, and PEM.

The kind is told by the first bytes, not by the name or by `ssl.keystore.type`: today's keytool writes PKCS12 into files
named `.jks`. A private key comes out as PEM without encryption, so it must not be logged or written where others read.

JKS: magic, version 2, entries, and a SHA-1 over the password, a fixed phrase and all before it. Its private keys are
masked by a stream of SHA-1 digests of password and salt. JCEKS is the same file with another magic; its private keys
are encrypted by triple DES with a key made of MD5 digests.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

JKS_MAGIC, JCEKS_MAGIC = 0xFEEDFEED, 0xCECECECE
KEY_ENTRY, CERTIFICATE_ENTRY = 1, 2
ITERATIONS_MAX = 5_000_000
JKS_KEY_OID = bytes.fromhex("060a2b060104012a02110101")
JCEKS_KEY_OID = bytes.fromhex("06092b060104012a021301")
INTEGRITY_PHRASE = b"Mighty Aphrodite"

_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class KeyStoreError(ValueError):
    """One sentence about why a key store cannot be read; it holds no secret."""


@dataclass(slots=True)
class KeyStore:
    """The first private key with its chain, and all certificates that stand alone; everything is PEM."""

    private_key: str | None = None
    chain: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)

    @property
    def certificates(self) -> list[str]:
        """What a trust store trusts: the certificates that stand alone, or else those of the chain."""
        return self.trusted or self.chain


def read_key_store(data: bytes, password: str | None, key_password: str | None = None) -> KeyStore:
    magic = struct.unpack(">I", data[:4])[0] if len(data) >= 4 else 0
    if magic in (JKS_MAGIC, JCEKS_MAGIC):
        return _Jks(data, magic == JCEKS_MAGIC).read(password, key_password if key_password is not None else password)
    if data[:1] == b"\x30":
        return _read_pkcs12(data, password)
    if b"-----BEGIN " in data:
        return read_pem(data.decode(errors="replace"), key_password if key_password is not None else password)
    raise KeyStoreError("it is neither JKS, JCEKS, PKCS12 nor PEM")


def read_pem(text: str, key_password: str | None = None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    store = KeyStore()
    certificates: list[str] = []
    for kind, block in pem_blocks(text):
        if kind.endswith("CERTIFICATE"):
            certificates.append(block)
        elif kind.endswith("PRIVATE KEY") and store.private_key is None:
            encrypted = kind.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in block
            secret = key_password.encode() if encrypted and key_password else None
            try:
                store.private_key = _pem_of(load_pem_private_key(block.encode(), secret))
            except (ValueError, TypeError) as error:
                raise KeyStoreError("its private key cannot be read: is the password right?") from error
    if store.private_key is not None:
        store.chain = certificates
    else:
        store.trusted = certificates
    return store


def pem_blocks(text: str) -> list[tuple[str, str]]:
    """Kind and text of every block, with lines as OpenSSL wants them: in properties they often stand on one line."""
    found = []
    for kind, body in _PEM_BLOCK.findall(text):
        if ":" in body:  # headers, which say how it is encrypted: lines count
            found.append((kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----"))
            continue
        joined = "".join(body.split())
        lines = [joined[at : at + 64] for at in range(0, len(joined), 64)]
        found.append((kind, "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])))
    return found


def _read_pkcs12(data: bytes, password: str | None) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        found = load_pkcs12(data, password.encode() if password else None)
    except ValueError as error:
        raise KeyStoreError("it cannot be opened: is the password right?") from error
    pem = [each.certificate.public_bytes(Encoding.PEM).decode() for each in found.additional_certs]
    if found.key is None:
        return KeyStore(trusted=pem)
    own = [] if found.cert is None else [found.cert.certificate.public_bytes(Encoding.PEM).decode()]
    return KeyStore(private_key=_pem_of(found.key), chain=own + pem)


class _Jks:
    def __init__(self, data: bytes, is_jceks: bool) -> None:
        self._data = data
        self._is_jceks = is_jceks
        self._at = 4

    def read(self, password: str | None, key_password: str | None) -> KeyStore:
        if password is not None:
            self._check(password)
        store = KeyStore()
        try:
            if self._number() != 2:
                raise KeyStoreError("its version is not 2")
            for _ in range(self._number()):
                self._entry(store, key_password)
        except (struct.error, IndexError) as error:
            raise KeyStoreError("it ends in the middle of an entry") from error
        return store

    def _check(self, password: str) -> None:
        """Java signs the file with its password: a wrong one is found out before anything is believed."""
        body, digest = self._data[:-20], self._data[-20:]
        expected = hashlib.sha1(_wide(password) + INTEGRITY_PHRASE + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise KeyStoreError("it was changed, or the password is wrong")

    def _entry(self, store: KeyStore, key_password: str | None) -> None:
        tag = self._number()
        self._text()  # alias
        self._take(8)  # time of creation
        if tag == KEY_ENTRY:
            protected = self._take(self._number())
            chain = [self._certificate() for _ in range(self._number())]
            if store.private_key is None:
                store.private_key, store.chain = self._private_key(protected, key_password), chain
        elif tag == CERTIFICATE_ENTRY:
            store.trusted.append(self._certificate())
        else:
            raise KeyStoreError("it holds entries other than private keys and certificates")

    def _private_key(self, protected: bytes, password: str | None) -> str:
        if password is None:
            raise KeyStoreError("its private key needs a password")
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        if JKS_KEY_OID in protected[:32]:
            plain = _unmask(_octets(protected)[-1], password)
        elif JCEKS_KEY_OID in protected[:32]:
            plain = _decrypt(protected, password)
        else:
            raise KeyStoreError("its private key is protected by an algorithm that is unknown here")
        try:
            return _pem_of(load_der_private_key(plain, None))
        except ValueError as error:
            raise KeyStoreError("its private key cannot be read: is ssl.key.password right?") from error

    def _certificate(self) -> str:
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509 import load_der_x509_certificate

        self._text()  # X.509
        data = self._take(self._number())
        try:
            return load_der_x509_certificate(data).public_bytes(Encoding.PEM).decode()
        except ValueError as error:
            raise KeyStoreError("it holds a certificate that cannot be read") from error

    def _number(self) -> int:
        (number,) = struct.unpack_from(">I", self._data, self._at)
        self._at += 4
        return int(number)

    def _text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._at)
        self._at += 2
        return self._take(size).decode(errors="replace")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise IndexError
        self._at += size
        return taken


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")


def _unmask(protected: bytes, password: str) -> bytes:
    salt, masked, check = protected[:20], protected[20:-20], protected[-20:]
    digest, stream = salt, bytearray()
    while len(stream) < len(masked):
        digest = hashlib.sha1(_wide(password) + digest, usedforsecurity=False).digest()
        stream += digest
    plain = bytes(left ^ right for left, right in zip(masked, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(_wide(password) + plain, usedforsecurity=False).digest(), check):
        raise KeyStoreError("the password of its private key is wrong")
    return plain


def _decrypt(protected: bytes, password: str) -> bytes:
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC
    from cryptography.hazmat.primitives.padding import PKCS7

    salt, encrypted = _octets(protected)
    at = protected.index(salt) + len(salt)
    iterations = int.from_bytes(protected[at + 2 : at + 2 + protected[at + 1]], "big")
    if not 0 < iterations <= ITERATIONS_MAX:
        raise KeyStoreError("its private key asks for an absurd number of iterations")
    halves = [salt[:4], salt[4:]]
    if halves[0] == halves[1]:
        halves[0] = halves[0][::-1]
    derived = b""
    for half in halves:
        digest = half
        for _ in range(iterations):
            digest = hashlib.md5(digest + password.encode("latin-1", "replace"), usedforsecurity=False).digest()
        derived += digest
    decryptor = Cipher(TripleDES(derived[:24]), CBC(derived[24:])).decryptor()
    unpadder = PKCS7(64).unpadder()
    try:
        padded = decryptor.update(encrypted) + decryptor.finalize()
        return bytes(unpadder.update(padded) + unpadder.finalize())
    except ValueError as error:
        raise KeyStoreError("the password of its private key is wrong") from error


def _octets(der: bytes) -> list[bytes]:
    """All octet strings of a structure, in order."""
    found: list[bytes] = []
    at = 0
    while at + 2 <= len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(der[at : at + count], "big")
            at += count
        if tag == 0x04:
            found.append(der[at : at + size])
        if tag != 0x30:  # a sequence is walked into
            at += size
    return found


def _pem_of(key: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
