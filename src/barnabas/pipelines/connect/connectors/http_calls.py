"""Calls over HTTP with one connection kept open, and what their failures mean: try again, or give up."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from barnabas.pipelines.connect.config import Setting
from barnabas.pipelines.connect.errors import ConfigError, RetriableError

TIMEOUT_S = 30.0
ANSWER_BYTES_MAX = 256 * 1024 * 1024
TIMEOUTS = (
    Setting("connection.timeout.ms", "INT", 30_000, "LOW", "How long a connection may take.", group="Connection"),
    Setting("read.timeout.ms", "INT", 30_000, "LOW", "How long an answer may take.", group="Connection"),
)


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body[:300].decode("utf-8", "replace")


def check_url(name: str, url: str) -> None:
    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        raise ConfigError("must be http://host... or https://host...", name, url)


def basic(user: str, password: str) -> dict[str, str]:
    given = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {given}"} if user else {}


class Caller:
    """Connections are kept by scheme and address."""

    def __init__(self, timeout_ms: int = 30_000) -> None:
        self._timeout_s = timeout_ms / 1000
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def call(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """RetriableError if nobody answers, or if the answer says that it may work later."""
        found = urlsplit(url)
        key = found.scheme, found.netloc
        path = (found.path or "/") + (f"?{found.query}" if found.query else "")
        fresh = key not in self._open
        try:
            answer = self._asked(key, method, path, body, headers)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self._drop(key)
            if fresh:
                raise RetriableError(f"{method} {url}: {error}") from error
            answer = self._again(key, method, url, path, body, headers)  # the server had closed it between two calls
        except (OSError, http.client.HTTPException) as error:
            self._drop(key)
            raise RetriableError(f"{method} {url}: {error}") from error
        if answer.status in (408, 425, 429) or answer.status >= 500:
            raise RetriableError(f"{method} {url} gives {answer.status}: {answer.text}")
        return answer

    def _again(
        self, key: tuple[str, str], method: str, url: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        try:
            return self._asked(key, method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self._drop(key)
            raise RetriableError(f"{method} {url}: {error}") from error

    def _asked(
        self, key: tuple[str, str], method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = self._open.get(key)
        if connection is None:
            connection = self._open[key] = self._connection(*key)
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES_MAX)
        if response.will_close or not response.isclosed():
            self._drop(key)
        return Answer(response.status, data)

    def _connection(self, scheme: str, address: str) -> http.client.HTTPConnection:
        if scheme == "https":
            return http.client.HTTPSConnection(address, timeout=self._timeout_s, context=ssl.create_default_context())
        return http.client.HTTPConnection(address, timeout=self._timeout_s)

    def _drop(self, key: Any) -> None:
        connection = self._open.pop(key, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for key in list(self._open):
            self._drop(key)
