"""TLS, passwords and tokens of the HTTP services, by the settings that Confluent's services have.

    listeners=https://0.0.0.0:8081                  ssl.keystore.*, ssl.truststore.*, ssl.client.authentication
    authentication.method=BASIC                     authentication.realm=SchemaRegistry-Props
    authentication.method=BEARER, or BASIC,BEARER   oauthbearer.jwks.endpoint.url and others (bearer.py)
    authentication.roles=admin,developer            who has one of these gets in; `*` is everybody with a password

Users stand in a file of lines `name: password,role,role`. Jetty's login module names it, in the realm's section of
the JAAS file of `SCHEMA_REGISTRY_OPTS=-Djava.security.auth.login.config=FILE`, or by `authentication.users.file`.
A password may be written as `MD5:` and its digest. Who has only the role `read` may look and not change. Who calls is
in `CALLER` while the call is served.

Apache Connect has its own way: `rest.extension.classes=...BasicAuthSecurityRestExtension`, whose users stand in a file
of lines `name=password`, which the section `KafkaConnect` of the JAAS file names.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import ssl
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

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
    from barnabas.web.bearer import HttpBearer

CLIENT_AUTHENTICATION = {"NONE": ssl.CERT_NONE, "REQUESTED": ssl.CERT_OPTIONAL, "REQUIRED": ssl.CERT_REQUIRED}
USERS_FILE = "authentication.users.file"
READ_ROLE = "read"
READING = frozenset({"GET", "HEAD", "OPTIONS"})
EXTENSIONS = "rest.extension.classes"
BASIC_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
CONNECT_REALM = "KafkaConnect"
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_USER = re.compile(r"\s*([^#!\s:=][^:=]*?)\s*[:=](.*)")
_DECOY = "no such user"
# What a browser sends to any server without asking it first.
UNASKED_TYPES = frozenset({b"", b"text/plain", b"multipart/form-data", b"application/x-www-form-urlencoded"})
STRANGER = "A page of another site asks; access.control.allow.origin does not name it."
OWN_TLS = "listeners.https."
FAILED_DELAY_S = 0.1  # who guesses waits as long as at a node


class Caller(NamedTuple):
    """Who asks, with what it has shown of itself; this is never logged."""

    name: str
    roles: frozenset[str]
    password: str | None = None
    token: str | None = None

    @property
    def may_change(self) -> bool:
        return self.roles != {READ_ROLE}

    def __repr__(self) -> str:
        return f"Caller({self.name!r})"


CALLER: ContextVar[Caller | None] = ContextVar("caller", default=None)
Reads = Callable[[Scope], bool]
Refusal = Callable[[int], Mapping[str, Any]]


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
    origins: frozenset[str] = frozenset()  # whose pages a browser may let ask; `*` is everybody's

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], options_variable: str) -> Self:
        """`options_variable` is the variable in which the service's Java options stand."""
        tls, origins = _tls_settings(properties), frozenset(listed(properties, "access.control.allow.origin"))
        extensions = set(listed(properties, EXTENSIONS))
        if unknown := extensions - {BASIC_EXTENSION}:
            raise InvalidSetting(EXTENSIONS, f"names {', '.join(sorted(unknown))}: only {BASIC_EXTENSION} is known.")
        if extensions:
            path = _file_of_realm(CONNECT_REALM, os.environ.get(options_variable, ""), EXTENSIONS)
            return cls(tls=tls, origins=origins, realm=CONNECT_REALM, users=read_users(path, has_roles=False))
        methods = {each.upper() for each in listed(properties, "authentication.method", "NONE")}
        if unknown := methods - {"NONE", "BASIC", "BEARER"}:
            raise InvalidSetting("authentication.method", f"is {', '.join(unknown)}: NONE, BASIC and BEARER are known.")
        if methods <= {"NONE"}:
            return cls(tls=tls, origins=origins)
        realm = properties.get("authentication.realm", "").strip()
        users, bearer = None, None
        if "BASIC" in methods:
            users = read_users(_users_file(properties, realm, os.environ.get(options_variable, "")))
        if "BEARER" in methods:
            from barnabas.web.bearer import HttpBearer

            bearer = HttpBearer.of(properties)
        roles = frozenset(listed(properties, "authentication.roles", "*"))
        return cls(tls=tls, origins=origins, realm=realm, roles=roles, users=users, bearer=bearer)

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

    def guard(self, app: ASGIApp, *, reads: Reads | None = None, refusal: Refusal | None = None) -> ASGIApp:
        """The service behind its passwords and tokens. `reads` tells calls that change nothing, if GET is not all of
        them; `refusal` makes the body of 401 and 403."""
        if self.is_open:
            return app

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            authorization = dict(scope["headers"]).get(b"authorization", b"")
            if self.bearer is not None and (token := _token(authorization)):
                await self.bearer.prepare(token)
            caller = self.identify(authorization)
            is_reading = is_reading_method(scope) if reads is None else reads(scope)
            status = self._status(caller, is_reading=is_reading)
            if status is None:
                CALLER.set(caller)
                await app(scope, receive, send)
                return
            if status == 401 and authorization:
                await asyncio.sleep(FAILED_DELAY_S)
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
            else:
                scheme = "basic" if self.users is not None else "bearer"
                await _refuse(send, status, (refusal or confluent_refusal)(status), f'{scheme} realm="{self.realm}"')

        return guarded

    def keep_strangers_out(self, app: ASGIApp) -> ASGIApp:
        """A page that a user looks at cannot change anything here through the user's browser, nor open a WebSocket.

        Browsers ask first before they send JSON to somebody else's server, and are not answered. Forms, plain texts
        and WebSockets they send at once, and say of which page.
        """

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            if not self._is_of_stranger(scope):
                await app(scope, receive, send)
            elif scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await _refuse(send, 403, {"error_code": 403, "message": STRANGER}, "")

        return checked

    def _is_of_stranger(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or "*" in self.origins or origin in self.origins:
            return False
        if origin.partition("://")[2] == headers.get(b"host", b"").decode("latin-1"):
            return False
        if scope["type"] == "websocket":
            return True
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return scope["method"] == "POST" and kind in UNASKED_TYPES

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
        return self._status(user, is_reading=method in READING)

    def _status(self, user: Caller | None, *, is_reading: bool) -> int | None:
        if user is None:
            return 401
        allowed = user.roles if "*" in self.roles else user.roles & self.roles
        if "*" not in self.roles and not allowed:
            return 403
        return None if is_reading or user.may_change else 403


def server_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    speak(context, tls_versions(settings))
    choose_ciphers(context, settings.get("ssl.cipher.suites", ""))
    own = own_certificate(settings)
    if own is None:
        raise InvalidSetting("ssl.keystore.location", "is missing, and listeners names https.")
    present(context, own)
    # A truth value for the registry and the REST proxy, a level for Connect.
    named = settings.get("ssl.client.auth", "false").strip().upper()
    default = named if named in CLIENT_AUTHENTICATION else "REQUIRED" if named == "TRUE" else "NONE"
    wanted = one_of(settings, "ssl.client.authentication", default, tuple(CLIENT_AUTHENTICATION))
    trusted = trusted_certificates(settings)
    if trusted is not None:
        trust(context, trusted)
    elif wanted != "NONE":
        raise InvalidSetting("ssl.truststore.location", f"is missing, and clients' certificates are {wanted.lower()}.")
    context.verify_mode = CLIENT_AUTHENTICATION[wanted]
    return context


def _tls_settings(properties: Mapping[str, str]) -> dict[str, str] | None:
    """None without https. Connect's `listeners.https.ssl.*` stand for all of `ssl.*` if there is one of them."""
    if not properties.get("listeners", "").strip().lower().startswith("https://"):
        return None
    own = {key.removeprefix(OWN_TLS): text for key, text in properties.items() if key.startswith(OWN_TLS)}
    tls = own or {key: text for key, text in properties.items() if key.startswith("ssl.")}
    server_context(tls)  # what cannot be used is said now
    return tls


def _users_file(properties: Mapping[str, str], realm: str, options: str) -> str:
    return properties.get(USERS_FILE, "").strip() or _file_of_realm(realm, options, USERS_FILE)


def _file_of_realm(realm: str, options: str, needed_by: str) -> str:
    """The file that the realm's section of the JAAS file names."""
    found = _JAAS_FILE.search(options)
    if found is None:
        missing = "is missing, and no" if needed_by == USERS_FILE else "is set, and no"
        raise InvalidSetting(needed_by, f"{missing} JAAS file names one: BASIC needs users.")
    try:
        text = Path(found[1]).read_text()
    except OSError as error:
        raise InvalidSetting("authentication.realm", f"cannot be found: {found[1]}: {error.strerror}.") from None
    section = re.search(rf"(?:^|\s){re.escape(realm)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
    named = None if section is None else re.search(r'\bfile\s*=\s*"([^"]+)"', section[1])
    if named is None:
        raise InvalidSetting("authentication.realm", f"is {realm}, and {found[1]} names no file of users for it.")
    return named[1]


def read_users(path: str, *, has_roles: bool = True) -> dict[str, User]:
    """`name: password,role,role`, or `name=password` in the file of Connect's own login module."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError as error:
        raise InvalidSetting(USERS_FILE, f"is {path}, which cannot be read: {error.strerror}.") from None
    users: dict[str, User] = {}
    for line in lines:
        found = _USER.fullmatch(line)
        if found is None:
            continue
        name, rest = found.groups()
        password, *roles = (part.strip() for part in rest.split(",")) if has_roles else (rest.strip(),)
        if password.startswith(("OBF:", "CRYPT:")):
            raise InvalidSetting(USERS_FILE, f"has {name} with neither a plain password nor MD5:.")
        if not password:
            raise InvalidSetting(USERS_FILE, f"has {name} without a password.")
        users[name] = User(password, frozenset(filter(None, roles)))
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


def is_reading_method(scope: Scope) -> bool:
    return scope.get("method", "GET") in READING


def confluent_refusal(status: int) -> Mapping[str, Any]:
    message = "Unauthorized" if status == 401 else "User is denied operation on this resource."
    return {"error_code": status if status == 401 else 40301, "message": message}


async def _refuse(send: Send, status: int, tree: Mapping[str, Any], challenge: str) -> None:
    body = json.dumps(tree).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", challenge.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
