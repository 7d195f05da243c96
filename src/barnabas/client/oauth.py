"""Bearer tokens of a client: from a file, from an identity provider by its client id and secret, or made up unsigned.

    sasl.oauthbearer.token.endpoint.url   https: of the provider, or file: of a file that holds a token
    sasl.jaas.config                      OAuthBearerLoginModule required clientId="..." clientSecret="..." scope="...";
                                          or unsecuredLoginStringClaim_sub="name": only for tests

A token is asked for at each login, so a session that is about to end continues with a new one. Tokens are not logged.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from barnabas.client.errors import AuthenticationFailed, InvalidSetting
from barnabas.client.properties import integer
from barnabas.client.redirects import open_carefully

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
UNSECURED_SUBJECT = "unsecuredLoginStringClaim_sub"
LIFETIME_S = 3600
TOKEN_BYTES_MAX = 128 * 1024


def token_source(properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    """`options` are those of the login module."""
    url = properties.get(ENDPOINT, "").strip()
    if url:
        scheme = urllib.parse.urlsplit(url).scheme
        if scheme == "file":
            path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
            return lambda: _read_file(path)
        if scheme not in ("http", "https"):
            raise InvalidSetting(ENDPOINT, f"is {url}, which begins with neither https:, http: nor file:.")
        return _from_provider(url, properties, options)
    if UNSECURED_SUBJECT in options:
        lifetime_s = int(options.get("unsecuredLoginLifetimeSeconds", LIFETIME_S))
        return lambda: unsigned_token(options[UNSECURED_SUBJECT], lifetime_s)
    raise InvalidSetting(ENDPOINT, "is missing: OAUTHBEARER needs an identity provider, or a file that holds a token.")


def _from_provider(url: str, properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    client_id = properties.get("sasl.oauthbearer.client.credentials.client.id") or options.get("clientId")
    secret = properties.get("sasl.oauthbearer.client.credentials.client.secret") or options.get("clientSecret")
    scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
    if not client_id or not secret:
        raise InvalidSetting("sasl.jaas.config", "has no clientId and clientSecret for the identity provider.")
    timeout_s = integer(properties, "sasl.login.read.timeout.ms", 10_000, least=1) / 1000
    return lambda: _ask_provider(url, client_id, secret, scope, timeout_s)


def _ask_provider(url: str, client_id: str, secret: str, scope: str | None, timeout_s: float) -> str:
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    login = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    request = urllib.request.Request(
        url,
        data=urllib.parse.urlencode(form).encode(),
        headers={"Authorization": f"Basic {login}", "Accept": "application/json"},
    )
    try:
        with open_carefully(request, timeout_s) as response:
            token = json.loads(response.read(TOKEN_BYTES_MAX))["access_token"]
    except urllib.error.HTTPError as error:
        raise AuthenticationFailed(f"{url} gave no token: it answered {error.code}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AuthenticationFailed(f"{url} gave no token: {type(error).__name__}.") from None
    return str(token).strip()


def _read_file(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise AuthenticationFailed(f"The token in {path} cannot be read: {error.strerror}.") from None


def unsigned_token(subject: str, lifetime_s: int) -> str:
    now = time.time()
    parts: list[dict[str, Any]] = [{"alg": "none"}, {"sub": subject, "iat": now, "exp": now + lifetime_s}]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return f"{encoded[0]}.{encoded[1]}."


class BearerExchange:
    """The token -> nothing, or a document that says why not -> \\x01, after which the broker refuses."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self._token = token
        self._extensions = extensions or {}
        self.done = False

    def first(self) -> bytes:
        more = "".join(f"{name}={value}\x01" for name, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token}\x01{more}\x01".encode()

    def answer(self, challenge: bytes) -> bytes:
        if challenge:
            return b"\x01"
        self.done = True
        return b""
