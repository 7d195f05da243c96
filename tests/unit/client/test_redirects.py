"""Redirects of identity providers, at a real server that sends whoever asks elsewhere."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from barnabas.client.errors import AuthenticationFailed
from barnabas.client.jwks import read_keys
from barnabas.client.oauth import token_source
from barnabas.client.redirects import CarefulRedirects

SEEN: list[str | None] = []


class Provider(BaseHTTPRequestHandler):
    def answer(self) -> None:
        if self.path == "/elsewhere":
            SEEN.append(self.headers.get("authorization"))
            body = b'{"access_token": "stolen", "keys": []}'
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            port = self.server.server_address[1]
            self.send_response(302)
            self.send_header("location", f"http://localhost:{port}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

    do_GET = do_POST = answer

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    SEEN.clear()
    with HTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_secret_of_a_client_does_not_follow_a_redirect_to_another_host(address: str) -> None:
    options = {"clientId": "me", "clientSecret": "hunter2"}
    token = token_source({"sasl.oauthbearer.token.endpoint.url": f"{address}/token"}, options)
    with pytest.raises(AuthenticationFailed, match="gave no token: it answered 302"):
        token()
    assert SEEN == []


def test_keys_may_be_elsewhere_as_long_as_nothing_secret_is_asked_with(address: str) -> None:
    with pytest.raises(ValueError, match="no public key"):
        read_keys(f"{address}/keys")
    assert SEEN == [None]


def test_https_is_never_left() -> None:
    request = urllib.request.Request("https://provider/keys")
    with pytest.raises(urllib.error.HTTPError, match="a redirect to provider is not followed"):
        CarefulRedirects().redirect_request(request, None, 302, "", {}, "http://provider/keys")  # type: ignore[arg-type]
