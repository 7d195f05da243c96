"""The SQL server as the command line asks it: HTTP, answers read as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

CHUNK_BYTES = 65536
CONTENT_TYPE = "application/vnd.ksql.v1+json"


class ServerRefused(Exception):
    """The server's own sentence."""


class ServerUnreachable(Exception):
    """A sentence."""


class SqlClient:
    def __init__(
        self, url: str, headers: Mapping[str, str] | None = None, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        """`headers` are those of every request. `tls` is asked for an address with https."""
        given = url if "://" in url else f"http://{url}"
        parts = urlsplit(given)
        self.url = given.rstrip("/")
        self._host, self._port = parts.hostname or "localhost", parts.port or 8088
        self._headers = {"content-type": CONTENT_TYPE, "accept": CONTENT_TYPE, **(headers or {})}
        self._tls: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context() if tls is None else tls()

    def info(self) -> dict[str, Any]:
        with self._asked("GET", "/info") as answer:
            found: dict[str, Any] = json.loads(answer.read())["KsqlServerInfo"]
        return found

    def execute(self, text: str, properties: dict[str, Any], variables: dict[str, str]) -> list[dict[str, Any]]:
        body = {"ksql": text, "streamsProperties": properties, "sessionVariables": variables}
        with self._asked("POST", "/ksql", body) as answer:
            found: list[dict[str, Any]] = json.loads(answer.read())
        return found

    def lines(self, text: str, properties: dict[str, Any], variables: dict[str, str]) -> Iterator[str]:
        """The lines of a query's or PRINT's answer; closing the iterator ends the query."""
        body = {"ksql": text, "streamsProperties": properties, "sessionVariables": variables}
        with self._asked("POST", "/query", body) as answer:
            rest = b""
            while data := self._more(answer):
                *whole, rest = (rest + data).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in whole)
            if rest:
                yield rest.decode("utf-8", "replace")

    def _more(self, answer: http.client.HTTPResponse) -> bytes:
        """What has come; nothing at the end. `readline` takes the end of a server for that of its answer."""
        try:
            return answer.read1(CHUNK_BYTES)
        except (OSError, http.client.HTTPException):
            raise ServerUnreachable(
                f"The server at {self.url} has closed the connection before the query ended."
            ) from None

    @contextlib.contextmanager
    def _asked(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        connection: http.client.HTTPConnection
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port)
        else:
            connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls)
        try:
            yield self._answer(connection, method, path, body)
        finally:
            connection.close()

    def _answer(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any
    ) -> http.client.HTTPResponse:
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, self._headers)
            answer = connection.getresponse()
        except OSError as error:
            raise ServerUnreachable(
                f"Remote server at {self.url} does not appear to be a valid KSQL server: {error.strerror or error}. "
                "Please ensure that the URL provided is for an active KSQL server."
            ) from None
        if answer.status < 400:
            return answer
        text = answer.read()
        try:
            message = json.loads(text)["message"]
        except (ValueError, KeyError, TypeError):
            message = f"HTTP {answer.status}: {text.decode('utf-8', 'replace')[:300]}"
        raise ServerRefused(str(message))
