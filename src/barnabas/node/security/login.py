"""The login of one connection on a SASL listener.

    (connected) --SaslHandshake--> (mechanism chosen) --SaslAuthenticate ...--> (logged in) or (refused: closed)
    (mechanism chosen) --anything else--> (refused: closed)
    (logged in) --SaslHandshake--> (mechanism chosen again) --SaslAuthenticate ...--> (logged in) or (refused: closed)

Until a client has logged in, nothing but ApiVersions, SaslHandshake and SaslAuthenticate is answered, and frames are
small. After version 0 of SaslHandshake the client sends the mechanism's bytes as they are, without Kafka's headers.

A session ends after `connections.max.reauth.ms`, or when the client's token expires. A client logs in again before, by
the same mechanism and as the same user; once the session is over nothing but a login is answered.

A refusal is answered after `connection.failed.authentication.delay.ms`, so that guessing is slow, and then the
connection is closed.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from barnabas.core.security.oauth import BearerServer
from barnabas.core.security.sasl import LoginRefused, PlainServer, ScramCredential, ScramServer, ServerExchange
from barnabas.node.requests import InvalidRequest

if TYPE_CHECKING:
    from barnabas.node.dispatch import Answer, Dispatcher, Exchange
    from barnabas.node.requests import Session
    from barnabas.node.security.bearer_tokens import BearerTokens
    from barnabas.node.security.kerberos import KerberosLogins
    from barnabas.node.security.tokens import TokenCredentials

SASL_AUTHENTICATE = 36
LOGIN_APIS = frozenset({17, 18, SASL_AUTHENTICATE})
REAUTHENTICATION_INTERVAL_S = 1.0
ILLEGAL_STATE = "The login is over, or this listener has none."


@dataclass(frozen=True, slots=True)
class Logins:
    """How clients log in on one listener."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(repr=False)  # of PLAIN
    scram_credential: Callable[[str, str], ScramCredential | None]  # of a mechanism and a user
    max_receive_bytes: int = 512 << 10
    refusal_delay_s: float = 0.1
    session_max_ms: Mapping[str, int] = field(default_factory=dict)  # of a mechanism; 0: for ever
    bearer_tokens: BearerTokens | None = None
    tokens: TokenCredentials | None = None
    kerberos: KerberosLogins | None = None

    def begin(self, dispatcher: Dispatcher, session: Session, on_end: Callable[[bool], None]) -> Login:
        """The login of one connection. `on_end` is told once: whether the client is in."""
        return Login(self, dispatcher, session, on_end)

    def exchange(self, mechanism: str) -> ServerExchange:
        if mechanism == "PLAIN":
            return PlainServer(self.passwords)
        if mechanism == "OAUTHBEARER":
            assert self.bearer_tokens is not None
            return BearerServer(self.bearer_tokens.validate)
        if mechanism == "GSSAPI":
            assert self.kerberos is not None
            return self.kerberos.exchange()
        tokens = self.tokens
        return ScramServer(
            mechanism,
            lambda user: self.scram_credential(mechanism, user),
            secrets.token_urlsafe(24),
            _DECOY_KEY,
            None if tokens is None else partial(tokens.find, mechanism),
        )


_DECOY_KEY = secrets.token_bytes(32)


class Login:
    def __init__(
        self, logins: Logins, dispatcher: Dispatcher, session: Session, on_end: Callable[[bool], None]
    ) -> None:
        self._logins = logins
        self._dispatcher = dispatcher
        self._session = session
        self._on_end = on_end
        self._exchange: ServerExchange | None = None
        self._mechanism = ""
        self._is_raw = False
        self._begun_at = float("-inf")
        # When the session ends, on the event loop's clock, and how long it lasts from the login on; None: never.
        self._ends_at: float | None = None
        self.session_lifetime_ms = 0
        self.done = False

    def serve(self, session: Session, frame: memoryview) -> Answer | Exchange | None:
        if self.done and (self._ends_at is None or asyncio.get_running_loop().time() < self._ends_at):
            return self._dispatcher.serve(session, frame)
        if self._is_raw and not self.done:
            return self._serve_raw(bytes(frame))
        api_key = struct.unpack_from(">h", frame)[0] if len(frame) >= 2 else -1
        if api_key not in LOGIN_APIS:
            why = "after its session has ended" if self.done else "before the client has logged in"
            raise InvalidRequest(f"API key {api_key} is not answered {why}")
        return self._dispatcher.serve(session, frame)

    def may_begin(self, mechanism: str) -> bool:
        """A client logs in once, and later again by the same mechanism, but not more than once a second."""
        if self._exchange is not None:
            return False
        if not self.done:
            return True
        now = asyncio.get_running_loop().time()
        return mechanism == self._mechanism and now - self._begun_at >= REAUTHENTICATION_INTERVAL_S

    def begin(self, mechanism: str, *, is_raw: bool) -> None:
        self._begun_at = asyncio.get_running_loop().time()
        self._exchange = self._logins.exchange(mechanism)
        self._mechanism = mechanism
        self._is_raw = is_raw

    async def prepare(self, message: bytes) -> None:
        """Called before `answer`: what has to be read from elsewhere is read now."""
        if isinstance(self._exchange, BearerServer) and self._logins.bearer_tokens is not None:
            await self._logins.bearer_tokens.prepare(message)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._logins.mechanisms

    @property
    def has_begun(self) -> bool:
        return self._exchange is not None

    @property
    def is_interrupted(self) -> bool:
        """A client that has chosen a mechanism sends SaslAuthenticate next: anything else ends the login."""
        return self._exchange is not None and not self.done

    def answer(self, message: bytes) -> bytes:
        """The next message to the client; raises LoginRefused, after which only `refuse` makes sense."""
        assert self._exchange is not None
        answer = self._exchange.answer(message)
        if self._exchange.done:
            self._log_in(self._exchange)
        return answer

    def _log_in(self, exchange: ServerExchange) -> None:
        principal = f"User:{exchange.user}"
        if self.done and principal != self._session.principal:
            raise LoginRefused(f"Cannot change principals during re-authentication from {self._session.principal}")
        self._exchange = None
        self.session_lifetime_ms = self._lifetime_ms(exchange)
        if self.session_lifetime_ms > 0:
            self._ends_at = asyncio.get_running_loop().time() + self.session_lifetime_ms / 1000
        self.done = True
        self._session.principal = principal
        self._session.is_token_login = getattr(exchange, "is_token_login", False)
        self._on_end(True)

    def _lifetime_ms(self, exchange: ServerExchange) -> int:
        """0: the session lasts as long as the connection."""
        lifetimes = [self._logins.session_max_ms.get(self._mechanism, 0)]
        expires_at_ms: int | None = getattr(exchange, "expires_at_ms", None)
        if expires_at_ms is not None:
            left_ms = expires_at_ms - time.time_ns() // 1_000_000
            if left_ms <= 0:
                raise LoginRefused("The token has expired.")
            lifetimes.append(left_ms)
        return min((each for each in lifetimes if each > 0), default=0)

    @property
    def has_end(self) -> bool:
        return self._ends_at is not None

    def refuse(self) -> None:
        """The connection is closed once what is being answered has been sent."""
        self._exchange = None
        self._on_end(False)

    async def until_refusal(self) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(self._logins.refusal_delay_s, waiter.set_result, None)
        try:
            await waiter
        finally:
            timer.cancel()

    async def _refuse_raw(self, why: str) -> None:
        """There is no answer that could say it."""
        await self.until_refusal()
        raise InvalidRequest(f"the login was refused: {why}")

    def _serve_raw(self, message: bytes) -> Answer | Exchange:
        try:
            answer = self.answer(message)
        except LoginRefused as error:
            return self._dispatcher.wait_for(self._session, SASL_AUTHENTICATE, self._refuse_raw(str(error)))
        return bytearray(struct.pack(">i", len(answer)) + answer)
