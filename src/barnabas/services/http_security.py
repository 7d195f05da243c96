"""TLS, passwords and tokens of the HTTP services, by the settings that Confluent's services have.

    listeners=https://0.0.0.0:8081                  ssl.keystore.*, ssl.truststore.*, ssl.client.authentication
    authentication.method=BASIC                     authentication.realm=SchemaRegistry-Props
    authentication.method=BEARER, or BASIC,BEARER   oauthbearer.jwks.endpoint.url and others (http_bearer.py)
    authentication.roles=admin,developer            who has one of these gets in; `*` is everybody with a password

Users stand in a file of lines `name: password,role,role`. Jetty's login module names it, in the realm's section of
the JAAS file of `SCHEMA_REGISTRY_OPTS=-Djava.security.auth.login.config=FILE`, or by `authentication.users.file`.
A password may be written as `MD5:` and its digest. Who has only the role `read` may look and not change. Who calls is
in `CALLER` while the call is served.
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
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

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

if TYPE_CHECKING:
    from barnabas.services.http_bearer import HttpBearer

CLIENT_AUTHENTICATION = {"NONE": ssl.CERT_NONE, "REQUESTED": ssl.CERT_OPTIONAL, "REQUIRED": ssl.CERT_REQUIRED}
USERS_FILE = "authentication.users.file"
READ_ROLE = "read"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_DECOY = "no such user"


class Caller(NamedTuple):
    """Who asks, with what it has shown of itself; this is never logged."""

    name: str
    roles: frozenset[str]
    password: str | None = None
    token: str | None = None

    def __repr__(self) -> str:
        return f"Caller({self.name!r})"


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)


class User(NamedTuple):
    password: str
    roles: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSecurity:
    tls: Mapping[str, str] | None = field(default=None, repr=False)  # the settings under ssl.; None: plain HTTP
    realm: str = ""
    roles: frozenset[str] = frozenset("*")
    users: Mapping[str, User] | None = field(default=None, repr=False)  # of BASIC
    bearer: HttpBearer | None = None  # if this is None as well, everybody gets in

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], options_variable: str) -> Self:
        """`options_variable` is the variable in which the service's Java options stand."""
        tls = None
        if properties.get("listeners", "").strip().lower().startswith("https://"):
            tls = {key: text for key, text in properties.items() if key.startswith("ssl.")}
            server_context(tls)  # what cannot be used is said now
        methods = {each.upper() for each in listed(properties, "authentication.method", "NONE")}
        if unknown := methods - {"NONE", "BASIC", "BEARER"}:
            raise InvalidSetting("authentication.method", f"is {', '.join(unknown)}: NONE, BASIC and BEARER are known.")
        if methods <= {"NONE"}:
            return cls(tls=tls)
        realm = properties.get("authentication.realm", "").strip()
        users, bearer = None, None
        if "BASIC" in methods:
            users = read_users(_users_file(properties, realm, os.environ.get(options_variable, "")))
        if "BEARER" in methods:
            from barnabas.services.http_bearer import HttpBearer

            bearer = HttpBearer.of(properties)
        roles = frozenset(listed(properties, "authentication.roles", "*"))
        return cls(tls=tls, realm=realm, roles=roles, users=users, bearer=bearer)

    @property
    def is_open(self) -> bool:
        return self.users is None and self.bearer is None

    def context(self) -> ssl.SSLContext | None:
        return None if self.tls is None else server_context(self.tls)

    def client_context(self) -> ssl.SSLContext | None:
        """How an instance asks another one, which trusts the same authority and shows the same certificate."""
        if self.tls is None:
            return None
        from barnabas.client.security import SecuritySettings

        return SecuritySettings.from_properties({"security.protocol": "SSL", **self.tls}).ssl_context()

    def guard(self, app: ASGIApp) -> ASGIApp:
        """The service behind its passwords and tokens."""
        if self.is_open:
            return app

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                authorization = dict(scope["headers"]).get(b"authorization", b"")
                if self.bearer is not None and (token := _token(authorization)):
                    await self.bearer.prepare(token)
                caller = self.identify(authorization)
                status = self.status_for(scope["method"], caller)
                if status is not None:
                    await _refuse(send, status, self.realm, "basic" if self.users is not None else "bearer")
                    return
                CALLER.set(caller)
            await app(scope, receive, send)

        return guarded

    def identify(self, authorization: bytes) -> Caller | None:
        """None for who is unknown."""
        token = _token(authorization)
        if token:
            valid = None if self.bearer is None else self.bearer.validate(token)
            return None if valid is None else Caller(*valid, token=token)
        if self.users is None:
            return None
        name, password = _credentials(authorization)
        user = self.users.get(name)
        is_right = _matches(password, user.password if user is not None else _DECOY)
        return Caller(name, user.roles, password=password) if user is not None and is_right else None

    def status_for(self, method: str, user: Caller | None) -> int | None:
        """401 for who is unknown, 403 for who may not, None for who may."""
        if user is None:
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


def _token(authorization: bytes) -> str:
    scheme, _, token = authorization.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


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
    # Digests, because the comparison of texts of different lengths tells the length.
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest())


async def _refuse(send: Send, status: int, realm: str, scheme: str) -> None:
    message = "Unauthorized" if status == 401 else "User is denied operation on this resource."
    body = json.dumps({"error_code": status if status == 401 else 40301, "message": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", f'{scheme} realm="{realm}"'.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
