"""Questions to a registry over HTTP: kept connections, several addresses, credentials."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from barnabas.client.errors import InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.security import SecuritySettings
from barnabas.client.serdes.errors import RegistryRefused, RegistryUnreachable

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
PREFIX = "schema.registry."
MOCK = "mock://"
IDLE_MAX = 8
ATTEMPTS = 2  # of a kept connection the other side may have closed


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    urls: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_ms: int = 30_000
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], url: str | None = None) -> Self:
        """Confluent's names: `schema.registry.url`, `basic.auth.credentials.source` and so on; TLS under
        `schema.registry.ssl.`."""
        given = url if url is not None else properties.get("schema.registry.url", "")
        urls = tuple(each.strip().rstrip("/") for each in given.split(",") if each.strip())
        if not urls:
            raise InvalidSetting("schema.registry.url", "is missing: for instance http://localhost:8081.")
        for each in urls:
            if not each.startswith(("http://", "https://", MOCK)):
                raise InvalidSetting("schema.registry.url", f"holds '{each}', which is not http://host:port.")
        return cls(
            urls=urls,
            headers=_authorization(properties, urls[0]),
            timeout_ms=integer(properties, "schema.registry.request.timeout.ms", 30_000, least=1),
            properties=dict(properties),
        )


def _authorization(properties: Mapping[str, str], url: str) -> dict[str, str]:
    user_info = _named(properties, "basic.auth.user.info")
    source = (_named(properties, "basic.auth.credentials.source") or "").upper()
    parts = urlsplit(url)
    if source in ("", "URL") and parts.username is not None:
        user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    if source == "SASL_INHERIT":
        name, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
        user_info = f"{name}:{password}" if name else user_info
    if user_info:
        return {"Authorization": "Basic " + base64.b64encode(user_info.encode()).decode()}
    token = _named(properties, "bearer.auth.token")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _named(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(f"{PREFIX}{name}") or properties.get(name)


class HttpTransport:
    """Several threads may ask at once; each request has a connection of its own meanwhile."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._tls: ssl.SSLContext | None = None

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        failures: list[str] = []
        for url in self._settings.urls:
            for _ in range(ATTEMPTS):
                try:
                    return self._ask(url, method, path, body)
                except (OSError, http.client.HTTPException) as error:
                    reason = f"{_shown(url)}: {error or type(error).__name__}"
            failures.append(reason)
        raise RegistryUnreachable(f"No schema registry answers at {'; '.join(failures)}.")

    def _ask(self, url: str, method: str, path: str, body: Any) -> Any:
        connection = self._connection(url)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": CONTENT_TYPE, **self._settings.headers}
        if data is not None:
            headers["Content-Type"] = CONTENT_TYPE
        try:
            connection.request(method, urlsplit(url).path + path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            connection.close()
            raise
        self._release(url, connection)
        return _read(url, answer.status, text)

    def _connection(self, url: str) -> http.client.HTTPConnection:
        with self._lock:
            if self._process != os.getpid():
                self._idle, self._process = {}, os.getpid()  # a parent's sockets are not ours
            idle = self._idle.get(url)
            if idle:
                return idle.pop()
        parts = urlsplit(url)
        timeout_s = self._settings.timeout_ms / 1000
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.hostname or "", parts.port or 443, timeout=timeout_s, context=self._context()
            )
        return http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_s)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            prefix = f"{PREFIX}ssl."
            given = {
                key.removeprefix(PREFIX): value
                for key, value in self._settings.properties.items()
                if key.startswith(prefix)
            }
            self._tls = SecuritySettings.from_properties({"security.protocol": "SSL"} | given).ssl_context()
        return self._tls

    def _release(self, url: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(url, [])
            if len(idle) < IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in (each for kept in idle.values() for each in kept):
            connection.close()

    def __del__(self) -> None:
        """Serializers are seldom closed; the connections of one that nobody uses any more are."""
        for connection in (each for kept in self._idle.values() for each in kept):
            connection.close()


def _read(url: str, status: int, text: bytes) -> Any:
    try:
        tree = json.loads(text) if text else None
    except ValueError:
        tree = None
        if status < 400:
            raise RegistryRefused(status, status, f"{_shown(url)} answered with something that is not JSON") from None
    if status < 400:
        return tree
    answer = tree if isinstance(tree, dict) else {}
    message = str(answer.get("message") or f"The schema registry answered HTTP {status}")
    code = answer.get("error_code", status)
    raise RegistryRefused(status, code if isinstance(code, int) else status, message)


def _shown(url: str) -> str:
    """Without the password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def show_urls(urls: Sequence[str]) -> str:
    return ",".join(map(_shown, urls))
