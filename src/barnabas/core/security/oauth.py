"""The server's side of SASL OAUTHBEARER (RFC 7628), without I/O.

One message brings the token. A token that is not valid is answered with a JSON document that says so, to which the
client says `\\x01`; only then the login is refused, as the RFC has it. Whether a token is valid is asked of a function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from barnabas.core.security.sasl import LoginRefused

MESSAGE_BYTES_MAX = 128 * 1024

_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01auth=(?P<scheme>[\w]+)\s+(?P<token>[-_.~+/a-zA-Z0-9]+=*)\x01"
    r"(?P<extensions>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)


class BearerToken(NamedTuple):
    """What a valid token says."""

    user: str
    expires_at_ms: int


class BearerServer:
    def __init__(self, validate: Callable[[str], BearerToken]) -> None:
        """`validate` raises LoginRefused."""
        self._validate = validate
        self._why = ""
        self.done = False
        self.user = ""
        self.expires_at_ms: int | None = None

    def answer(self, message: bytes) -> bytes:
        if self._why:
            raise LoginRefused(self._why)
        token, authorization = self._read(message)
        try:
            valid = self._validate(token)
        except LoginRefused as error:
            self._why = str(error)
            return json.dumps({"status": "invalid_token"}, separators=(",", ":")).encode()
        if authorization and authorization != valid.user:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.done, self.user, self.expires_at_ms = True, valid.user, valid.expires_at_ms
        return b""

    def _read(self, message: bytes) -> tuple[str, str | None]:
        if len(message) > MESSAGE_BYTES_MAX:
            raise LoginRefused("The token is too long.")
        try:
            found = _FIRST.fullmatch(message.decode())
        except UnicodeDecodeError:
            found = None
        if found is None or found["scheme"].lower() != "bearer":
            raise LoginRefused("Invalid OAUTHBEARER client first message")
        return found["token"], found["authorization"]
