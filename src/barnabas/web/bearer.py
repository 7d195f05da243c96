"""Bearer tokens at the HTTP services, by the settings that Confluent's services have.

    authentication.method=BEARER (or BASIC,BEARER)
    oauthbearer.jwks.endpoint.url=https://...      oauthbearer.expected.issuer, .expected.audience, .clock.skew.seconds
    oauthbearer.sub.claim.name=sub                 oauthbearer.groups.claim.name=groups: the user's roles

Keys are read in a thread: at the first token, every hour, and once a second at most for a token of an unknown key.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from barnabas.client.errors import InvalidSetting
from barnabas.client.jwks import ALGORITHMS, read_keys
from barnabas.client.properties import integer, listed

log = logging.getLogger("barnabas.http")

PREFIX = "oauthbearer."
URL = f"{PREFIX}jwks.endpoint.url"
REFRESH_S = 3600.0
RETRY_S = 1.0
TOKEN_BYTES_MAX = 64 * 1024


class HttpBearer:
    def __init__(
        self, url: str, issuer: str | None, audience: list[str], *, subject: str, roles: str, leeway_s: int
    ) -> None:
        """`subject` and `roles` are names of claims."""
        self._url = url
        self._issuer = issuer
        self._audience = audience
        self._subject = subject
        self._roles = roles
        self._leeway_s = leeway_s
        self._keys: dict[str | None, Any] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Future[None] | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        url = properties.get(URL, "").strip()
        if urlsplit(url).scheme not in ("http", "https", "file"):
            problem = "is missing" if not url else f"is {url}"
            raise InvalidSetting(URL, f"{problem}: BEARER needs the keys of tokens, at https:, http: or file:.")
        return cls(
            url,
            properties.get(f"{PREFIX}expected.issuer", "").strip() or None,
            list(listed(properties, f"{PREFIX}expected.audience")),
            subject=properties.get(f"{PREFIX}sub.claim.name", "").strip() or "sub",
            roles=properties.get(f"{PREFIX}groups.claim.name", "").strip() or "groups",
            leeway_s=integer(properties, f"{PREFIX}clock.skew.seconds", 30),
        )

    async def prepare(self, token: str) -> None:
        """Reads the keys if those that are known are old, or not the one of this token."""
        import jwt

        try:
            key_id = jwt.get_unverified_header(token).get("kid")
        except jwt.PyJWTError:
            return
        now = time.monotonic()
        is_known = key_id in self._keys and now - self._read_at < REFRESH_S
        if is_known or (self._reading is None and now - self._tried_at < RETRY_S):
            return
        if self._reading is None:
            self._tried_at = now
            self._reading = asyncio.ensure_future(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(read_keys, self._url)
            self._read_at = time.monotonic()
        except Exception as error:
            log.error("the keys of tokens could not be read from %s: %s", self._url, error)
        finally:
            self._reading = None

    def validate(self, token: str) -> tuple[str, frozenset[str]] | None:
        """The user and its roles, or None if the token is not valid."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key = self._keys.get(header.get("kid"))
            if key is None or len(token) > TOKEN_BYTES_MAX:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                leeway=self._leeway_s,
                issuer=self._issuer,
                audience=self._audience or None,
                options={"require": ["exp"], "verify_aud": bool(self._audience)},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        name, roles = claims.get(self._subject), claims.get(self._roles, ())
        if not isinstance(name, str) or not name.strip():
            return None
        roles = roles.split() if isinstance(roles, str) else roles
        return name.strip(), frozenset(map(str, roles)) if isinstance(roles, list) else frozenset()
