"""The server's side of SASL GSSAPI (RFC 4752), without I/O: what is said around a security context of Kerberos.

    client's token -> ours ... until the context is complete
    nothing        -> our offer, wrapped: which protection we take (none beyond the login), and the size of messages
    client's choice, wrapped -> done

The context itself comes from outside; it checks tickets with the node's key. As in Kafka the identity that the client
asks to be is not looked at: it is the one that its ticket names, shortened by the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.core.security.principals import NoRuleApplies
from barnabas.core.security.sasl import REFUSED, LoginRefused

NO_PROTECTION = 1
OFFER = bytes((NO_PROTECTION, 0, 0, 0))
TOKEN_BYTES_MAX = 256 * 1024


class ContextFailed(Exception):
    """A token is not what it should be; the text is for the node's log."""


class AcceptorContext(Protocol):
    @property
    def complete(self) -> bool: ...

    @property
    def initiator(self) -> str:
        """The client's principal, once the context is complete."""
        ...

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


class GssapiServer:
    def __init__(self, context: AcceptorContext, name_of: Callable[[str], str], failed: Callable[[str], None]) -> None:
        """`name_of` makes a user of a principal; `failed` is told why a login was refused."""
        self._context = context
        self._name_of = name_of
        self._failed = failed
        self._offered = False
        self.done = False
        self.user = ""

    def answer(self, message: bytes) -> bytes:
        if self.done:
            raise LoginRefused("The login is over already.")
        try:
            if len(message) > TOKEN_BYTES_MAX:
                raise ContextFailed(f"a token of {len(message)} bytes")
            return self._next(message)
        except (ContextFailed, NoRuleApplies) as error:
            self._failed(str(error))
            raise LoginRefused(REFUSED.format("GSSAPI")) from None

    def _next(self, message: bytes) -> bytes:
        if not self._context.complete:
            token = self._context.step(message)
            if token or not self._context.complete:
                return token
            return self._offer()
        if not self._offered:
            if message:
                raise ContextFailed("a token after the context was complete")
            return self._offer()
        choice = self._context.unwrap(message)
        if len(choice) < 4 or choice[0] != NO_PROTECTION:
            raise ContextFailed("the client wants a protection of messages that was not offered")
        self.user = self._name_of(self._context.initiator)
        self.done = True
        return b""

    def _offer(self) -> bytes:
        self._offered = True
        return self._context.wrap(OFFER)
