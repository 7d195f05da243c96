"""The server's side of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), without I/O.

An exchange answers each message of the client until it is done; then it has a user. Whatever is wrong raises
`LoginRefused`, whose message goes to the client: it never tells whether the user exists. A user that does not exist
takes as long as one with a wrong password.

SCRAM: first message -> salt, iterations and nonce -> proof -> our signature. The client proves that it knows the
password without sending it, and we prove that we know what was derived from it. A credential is what the metadata log
keeps: salt, stored key, server key, iterations.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISM_CODES = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
ITERATIONS_MIN = 4096
MESSAGE_BYTES_MAX = 64 * 1024

REFUSED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"

_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F\x80-\U0010FFFF]|=2C|=3D)+"
_VALUE = r"[\x01-\x2B\x2D-\x7F]+"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
_FINAL = re.compile(
    rf"(?P<without_proof>c=(?P<binding>[a-zA-Z0-9/+=]*),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[A-Za-z]+={_VALUE})*)"
    r",p=(?P<proof>[a-zA-Z0-9/+=]+)"
)


class LoginRefused(Exception):
    """The login failed; the message is for the client."""


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(..., {self.iterations})"


class TokenCredential(NamedTuple):
    """What a login by a delegation token is checked with, and whose it is."""

    credential: ScramCredential
    owner: str
    expires_at_ms: int


class ServerExchange(Protocol):
    done: bool
    user: str

    def answer(self, message: bytes) -> bytes: ...


class PlainServer:
    """One message: the authorization id (empty, or the user), the user and the password, divided by zero bytes."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.done = False
        self.user = ""

    def answer(self, message: bytes) -> bytes:
        if self.done:
            raise LoginRefused("The login is over already.")
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("Invalid SASL/PLAIN response: it is not UTF-8.") from None
        if len(parts) != 3:
            raise LoginRefused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization, user, password = parts
        if not user:
            raise LoginRefused("Authentication failed: username not specified")
        if not password:
            raise LoginRefused("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        # Digests, because the comparison of texts of different lengths tells the length.
        digests = [hashlib.sha256(each.encode()).digest() for each in (password, expected or "")]
        right = hmac.compare_digest(*digests)
        if expected is None or not right:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if authorization and authorization != user:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.done, self.user = True, user
        return b""


class ScramServer:
    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
        decoy_key: bytes,
        token_of: Callable[[str], TokenCredential | None] | None = None,
    ) -> None:
        """`nonce` is random; `decoy_key` is a secret of this process that makes up salts for unknown users. `token_of`
        finds delegation tokens by their ids, where they are enabled."""
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self._decoy_key = decoy_key
        self._credential: ScramCredential | None = None
        self._known = False
        self._token_of = token_of
        self.is_token_login = False
        self.expires_at_ms: int | None = None
        self._first_bare = self._server_first = self._header = ""
        self.done = False
        self.user = ""

    def answer(self, message: bytes) -> bytes:
        if self.done:
            raise LoginRefused("The login is over already.")
        if len(message) > MESSAGE_BYTES_MAX:
            raise self._refused()
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise self._refused() from None
        return self._first(text) if self._credential is None else self._final(text)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise self._refused()
        self.user = found["name"].replace("=2C", ",").replace("=3D", "=")
        if ",tokenauth=true" in f"{found['extensions']},".lower():
            credential = self._find_token()
        else:
            credential = self._credential_of(self.user)
        authorization = found["authorization"]
        if authorization is not None and authorization != self.user:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._known = credential is not None and credential.iterations >= ITERATIONS_MIN
        self._credential = credential if credential is not None and self._known else self._decoy()
        self._header, self._first_bare = found["header"], found["bare"]
        self._nonce = found["nonce"] + self._nonce
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first.encode()

    def _find_token(self) -> ScramCredential | None:
        """The user of the login is the token's owner."""
        self.is_token_login = True
        token = None if self._token_of is None else self._token_of(self.user)
        if token is None:
            return None
        self.user, self.expires_at_ms = token.owner, token.expires_at_ms
        return token.credential

    def _final(self, text: str) -> bytes:
        assert self._credential is not None
        found = _FINAL.fullmatch(text)
        if found is None:
            raise self._refused()
        binding, proof = _decoded(found["binding"]), _decoded(found["proof"])
        if binding != self._header.encode() or proof is None or found["nonce"] != self._nonce:
            raise self._refused()
        signed = ",".join((self._first_bare, self._server_first, found["without_proof"])).encode()
        signature = hmac.digest(self._credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise self._refused()
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        computed = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(computed, self._credential.stored_key) or not self._known:
            raise self._refused()
        self.done = True
        ours = hmac.digest(self._credential.server_key, signed, self._hash)
        return b"v=" + base64.b64encode(ours)

    def _decoy(self) -> ScramCredential:
        """What an unknown user is asked with: always the same, so that asking twice tells nothing either."""
        digest = hmac.digest(self._decoy_key, self.user.encode(), self._hash)
        return ScramCredential(digest[:26], digest, digest, ITERATIONS_MIN)

    def _refused(self) -> LoginRefused:
        return LoginRefused(REFUSED.format(self._mechanism))


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
