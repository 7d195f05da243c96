"""The client's side of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), without I/O.

An exchange gives the first message, then an answer to each challenge, until it says that it is done. SCRAM proves both
sides: a server that does not know the password is found out by its last message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Protocol

from barnabas.client.errors import AuthenticationFailed

if TYPE_CHECKING:
    from barnabas.client.security import SecuritySettings

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000  # a broker may not keep us busy for minutes


class Exchange(Protocol):
    done: bool

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes: ...


def exchange_for(security: SecuritySettings, host: str) -> Exchange:
    """May block, where a token or a ticket is fetched. `host` is the broker's, as the client knows it."""
    if security.kerberos is not None:
        from barnabas.client.kerberos import GssapiExchange

        return GssapiExchange(security.kerberos, host)
    if security.bearer_token is not None:
        from barnabas.client.oauth import BearerExchange

        return BearerExchange(security.bearer_token())
    if security.mechanism == "PLAIN":
        return PlainExchange(security.username, security.password)
    nonce = secrets.token_urlsafe(24)
    return ScramExchange(
        security.mechanism, security.username, security.password, nonce, is_token=security.is_delegation_token
    )


class PlainExchange:
    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()
        self.done = False

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes:
        """Nothing more is to be said; the server's answer is empty."""
        self.done = True
        return b""


_DIGITS = re.compile("[0-9]{1,9}")


class ScramExchange:
    """first -> server's first -> proof -> server's signature -> done."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False) -> None:
        """With `is_token` the names are the id and the HMAC of a delegation token."""
        self._hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        extension = ",tokenauth=true" if is_token else ""
        self._first_bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}"
        self._expected_signature: bytes | None = None
        self.done = False

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        if self._expected_signature is None:
            return self._proof(challenge)
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationFailed(f"The broker refused the login: {fields['e']}.")
        if not hmac.compare_digest(_decoded(fields, "v"), self._expected_signature):
            raise AuthenticationFailed("The broker did not prove that it knows the password: it may be somebody else.")
        self.done = True
        return b""

    def _proof(self, challenge: bytes) -> bytes:
        fields = _fields(challenge)
        nonce, salt = fields.get("r", ""), _decoded(fields, "s")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("The broker answered the login with a nonce that is not ours.")
        iterations = fields.get("i", "")
        if not _DIGITS.fullmatch(iterations) or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"The broker asked for '{iterations[:20]}' iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are right."
            )
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        signed = ",".join((self._first_bare, challenge.decode(), without_proof)).encode()
        signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._expected_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("The broker's part of the login cannot be read.") from None
    return {part[0]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields[name], validate=True)
    except (KeyError, binascii.Error):
        raise AuthenticationFailed("The broker's part of the login cannot be read.") from None
