"""Which bearer tokens are valid: signed by a key of the identity provider, for us, and not expired.

    sasl.oauthbearer.jwks.endpoint.url        the provider's keys: http:, https: or file:
    sasl.oauthbearer.expected.issuer, .audience, .clock.skew.seconds, .sub.claim.name

Keys are kept. They are read again after `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names a key that
is not known, but not more often than the retry backoff says; that happens in a thread. Tokens without a signature are
accepted only where Kafka's class for them is named, and never together with an address of keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from barnabas.client.jwks import ALGORITHMS, read_keys
from barnabas.core.security.oauth import BearerToken
from barnabas.core.security.sasl import LoginRefused
from barnabas.node.configuration import BrokerConfig, ConfigError

log = logging.getLogger("barnabas.security")

PREFIX = "sasl.oauthbearer."
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
HANDLER = "oauthbearer.sasl.server.callback.handler.class"


class BearerTokens:
    """Validates the tokens of one listener."""

    def __init__(self, settings: Mapping[str, Any], *, is_unsecured: bool) -> None:
        """`settings` are those under `sasl.oauthbearer.`, with their defaults."""
        self._is_unsecured = is_unsecured
        self._url: str = settings.get("jwks.endpoint.url") or ""
        self._issuer: str | None = settings.get("expected.issuer")
        self._audience = list(settings.get("expected.audience") or ())
        self._leeway_s = int(settings.get("clock.skew.seconds", 30))
        self._subject: str = settings.get("sub.claim.name") or "sub"
        self._refresh_s = int(settings.get("jwks.endpoint.refresh.ms", 3_600_000)) / 1000
        self._retry_s = int(settings.get("jwks.endpoint.retry.backoff.ms", 100)) / 1000
        self._keys: dict[str | None, Any] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Future[None] | None = None

    @classmethod
    def of(cls, config: BrokerConfig, listener: str) -> BearerTokens:
        own = f"listener.name.{listener.lower()}."
        names = (
            "jwks.endpoint.url",
            "expected.issuer",
            "expected.audience",
            "clock.skew.seconds",
            "sub.claim.name",
            "jwks.endpoint.refresh.ms",
            "jwks.endpoint.retry.backoff.ms",
        )
        settings = {name: _setting(config, own, PREFIX + name) for name in names}
        handler = (config.properties.get(own + HANDLER) or "").strip()
        url = settings["jwks.endpoint.url"]
        is_unsecured = handler.rpartition(".")[2] == UNSECURED.rpartition(".")[2]
        if is_unsecured and url:
            raise ConfigError(
                f"{own}{HANDLER} accepts tokens without a signature, and {PREFIX}jwks.endpoint.url is set."
            )
        if not is_unsecured and not url:
            raise ConfigError(
                f"{PREFIX}jwks.endpoint.url is missing: OAUTHBEARER on {listener} needs the keys of tokens. "
                f"Tokens without a signature are accepted if {own}{HANDLER} is {UNSECURED}."
            )
        if url and urlsplit(str(url)).scheme not in ("http", "https", "file"):
            raise ConfigError(f"{PREFIX}jwks.endpoint.url={url} cannot be used: it begins with https:, http: or file:.")
        if is_unsecured:
            log.warning("listener %s accepts unsigned tokens: a client can claim any name", listener)
        return cls(settings, is_unsecured=is_unsecured)

    async def prepare(self, message: bytes) -> None:
        """Reads the keys if the token in a client's first message is signed by one that is not known."""
        if self._is_unsecured:
            return
        now = time.monotonic()
        key_id = _key_id(message)
        is_known = key_id in self._keys or (key_id is None and len(self._keys) == 1)
        if is_known and now - self._read_at < self._refresh_s:
            return
        if now - self._tried_at < max(self._retry_s, 1.0) and self._reading is None:
            return
        if self._reading is None:
            self._tried_at = now
            self._reading = asyncio.ensure_future(self._read())
        if not is_known:
            await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            self._keys = await asyncio.to_thread(read_keys, self._url)
            self._read_at = time.monotonic()
        except Exception as error:
            log.error("the keys of tokens could not be read from %s: %s", self._url, error)
        finally:
            self._reading = None

    def validate(self, token: str) -> BearerToken:
        import jwt

        try:
            if self._is_unsecured:
                claims = self._unsigned_claims(token)
            else:
                claims = jwt.decode(
                    token,
                    self._key_of(jwt.get_unverified_header(token)),
                    algorithms=list(ALGORITHMS),
                    leeway=self._leeway_s,
                    issuer=self._issuer,
                    audience=self._audience or None,
                    options={"require": ["exp", "iat"], "verify_aud": bool(self._audience)},
                )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise LoginRefused(f"The token is not valid: {error}") from None
        subject = claims.get(self._subject)
        if not isinstance(subject, str) or not subject.strip():
            raise LoginRefused(f"The token has no claim {self._subject} that names its user.")
        return BearerToken(subject.strip(), int(claims["exp"] * 1000))

    def _key_of(self, header: Mapping[str, Any]) -> Any:
        key = self._keys.get(header.get("kid"))
        if key is None and "kid" not in header and len(self._keys) == 1:
            key = next(iter(self._keys.values()))
        if key is None:
            raise ValueError("it is signed by a key that is not known")
        return key

    def _unsigned_claims(self, token: str) -> dict[str, Any]:
        import jwt

        claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        if jwt.get_unverified_header(token).get("alg") != "none":
            raise ValueError("it is signed, and this listener knows no keys")
        expires = claims.get("exp")
        if not isinstance(expires, (int, float)) or expires + self._leeway_s < time.time():
            raise ValueError("it has expired, or does not say when it does")
        return claims


def _key_id(message: bytes) -> str | None:
    import jwt

    token = message.partition(b"auth=")[2].partition(b"\x01")[0].partition(b" ")[2]
    try:
        found = jwt.get_unverified_header(token).get("kid")
    except jwt.PyJWTError:
        return None
    return found if isinstance(found, str) else None


def _setting(config: BrokerConfig, own: str, key: str) -> Any:
    given = config.properties.get(f"{own}{key}") or config.properties.get(f"{own}oauthbearer.{key}")
    if given is None:
        return config.value(key)
    return [each.strip() for each in given.split(",")] if key.endswith("audience") else given.strip()
