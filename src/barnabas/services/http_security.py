"""TLS and passwords of the HTTP services, by the settings that Confluent's services have.

    listeners=https://0.0.0.0:8081                  ssl.keystore.*, ssl.truststore.*, ssl.client.authentication
    authentication.method=BASIC                     authentication.realm=SchemaRegistry-Props
    authentication.roles=admin,developer            who has one of these gets in; `*` is everybody with a password

Users stand in a file of lines `name: password,role,role`. Jetty's login module names it, in the realm's section of
the JAAS file of `SCHEMA_REGISTRY_OPTS=-Djava.security.auth.login.config=FILE`, or by `authentication.users.file`.
A password may be written as `MD5:` and its digest. Who has only the role `read` may look and not change.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from starlette.types import ASGIApp, Receive, Scope, Send

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import listed, one_of
from barnabas.client.tls import (
    choose_ciphers,
    own_certificate,
    present,
    speak,
    tls_versions,
    trust,
    trusted_certificates,
)

CLIENT_AUTHENTICATION = {"NONE": ssl.CERT_NONE, "REQUESTED": ssl.CERT_OPTIONAL, "REQUIRED": ssl.CERT_REQUIRED}
USERS_FILE = "authentication.users.file"
READ_ROLE = "read"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_DECOY = "no such user"


class User(NamedTuple):
    password: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSecurity:
    tls: Mapping[str, str] | None = None  # the settings under ssl.; None: plain HTTP
    realm: str = ""
    roles: frozenset[str] = frozenset("*")
    users: Mapping[str, User] | None = field(default=None, repr=False)  # None: everybody gets in

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], options_variable: str) -> Self:
        """`options_variable` is the variable in which the service's Java options stand."""
        tls = None
        if properties.get("listeners", "").strip().lower().startswith("https://"):
            tls = {key: text for key, text in properties.items() if key.startswith("ssl.")}
            server_context(tls)  # what cannot be used is said now
        method = one_of(properties, "authentication.method", "NONE", ("NONE", "BASIC", "BEARER"))
        if method == "NONE":
            return cls(tls=tls)
        if method == "BEARER":
            raise InvalidSetting("authentication.method", "is BEARER, which is not spoken here yet: use BASIC.")
        realm = properties.get("authentication.realm", "").strip()
        users = read_users(_users_file(properties, realm, os.environ.get(options_variable, "")))
        return cls(tls=tls, realm=realm, roles=frozenset(listed(properties, "authentication.roles", "*")), users=users)

    @property
    def is_open(self) -> bool:
        return self.users is None

    def context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else server_context(self.tls)

    def client_context(self) -> ssl.SSLContext | None:
        """How an instance asks another one, which trusts the same authority and shows the same certificate."""
        if self.tls is None:
            return None
        from barnabas.client.security import SecuritySettings

        return SecuritySettings.from_properties({"security.protocol": "SSL", **self.tls}).ssl_context()

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The service behind its passwords."""
        if self.users is None:
            return app

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                status = self.status_for(scope["method"], dict(scope["headers"]).get(b"authorization", b""))
                if status is not None:
                    await _refuse(send, status, self.realm)
                    return
            await app(scope, receive, send)

        return guarded

    def status_for(self, method: str, authorization: bytes) -> int | None:
        """401 for who is unknown, 403 for who may not, None for who may."""
        assert self.users is not None
        name, password = _credentials(authorization)
        user = self.users.get(name)
        is_right = _matches(password, user.password if user is not None else _DECOY)
        if user is None or not is_right:
            return 401
        allowed = user.roles if "*" in self.roles else user.roles & self.roles
        if "*" not in self.roles and not allowed:
            return 403
        return 403 if method not in READING and user.roles == {READ_ROLE} else None


def server_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speak(context, tls_versions(settings))
    choose_ciphers(context, settings.get("ssl.cipher.suites", ""))
    own = own_certificate(settings)
    if own is None:
        raise InvalidSetting("ssl.keystore.location", "is missing, and listeners names https.")
    present(context, own)
    is_required = settings.get("ssl.client.auth", "false").strip().lower() == "true"
    default = "REQUIRED" if is_required else "NONE"
    wanted = one_of(settings, "ssl.client.authentication", default, tuple(CLIENT_AUTHENTICATION))
    trusted = trusted_certificates(settings)
    if trusted is not None:
        trust(context, trusted)
    elif wanted != "NONE":
        raise InvalidSetting("ssl.truststore.location", f"is missing, and clients' certificates are {wanted.lower()}.")
    context.verify_mode = CLIENT_AUTHENTICATION[wanted]
    return context


def _users_file(properties: Mapping[str, str], realm: str, options: str) -> str:
    given = properties.get(USERS_FILE, "").strip()
    if given:
        return given
    found = _JAAS_FILE.search(options)
    if found is None:
        raise InvalidSetting(USERS_FILE, "is missing, and no JAAS file names one: BASIC needs users.")
    try:
        text = Path(found[1]).read_text()
    except OSError as error:
        raise InvalidSetting("authentication.realm", f"cannot be found: {found[1]}: {error.strerror}.") from None
    section = re.search(rf"(?:^|\s){re.escape(realm)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    named = None if section is None else re.search(r'\bfile\s*=\s*"([^"]+)"', section[1])
    if named is None:
        raise InvalidSetting("authentication.realm", f"is {realm}, and {found[1]} names no file of users for it.")
    return named[1]


def read_users(path: str) -> dict[str, User]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise InvalidSetting(
            "authentication.users.file", f"is {path}, which cannot be read: {error.strerror}."
        ) from None
    users: dict[str, User] = {}
    for line in lines:
        name, colon, rest = line.partition(":")
        if not colon or line.lstrip().startswith("#"):
            continue
        password, *roles = (part.strip() for part in rest.split(","))
        if password.startswith(("OBF:", "CRYPT:")):
            raise InvalidSetting(
                "authentication.users.file", f"has {name.strip()} with neither a plain password nor MD5:."
            )
        users[name.strip()] = User(password, frozenset(filter(None, roles)))
    if not users:
        raise InvalidSetting(USERS_FILE, f"is {path}, which names no user.")
    return users


def _credentials(authorization: bytes) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _matches(given: str, expected: str) -> bool:
    if expected.startswith("MD5:"):
        given, expected = hashlib.md5(given.encode(), usedforsecurity=False).hexdigest(), expected[4:].lower()
    return hmac.compare_digest(given.encode(), expected.encode())


async def _refuse(send: Send, status: int, realm: str) -> None:
    message = "Unauthorized" if status == 401 else "User is denied operation on this resource."
    body = json.dumps({"error_code": status if status == 401 else 40301, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", f'basic realm="{realm}"'.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
