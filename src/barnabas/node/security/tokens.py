"""Delegation tokens on a node: its rules, who may ask about them, and logins by them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

from barnabas.core.controller.delegation_tokens import TokenRules, has_ended, token_hmac
from barnabas.core.metadata.state import MetadataImage
from barnabas.core.security.model import ANONYMOUS
from barnabas.core.security.sasl import HASHES, ITERATIONS_MIN, ScramCredential, TokenCredential
from barnabas.node.configuration import BrokerConfig
from barnabas.node.configuration.listeners import SecurityProtocol
from barnabas.node.requests import RequestContext
from barnabas.wire.errors import ErrorCode, KafkaError

CREDENTIALS_MAX = 1000


def token_rules(config: BrokerConfig) -> TokenRules | None:
    """None if tokens are not enabled, which `delegation.token.secret.key` does."""
    secret = config.text("delegation.token.secret.key")
    if not secret:
        return None
    return TokenRules(
        secret.encode(),
        int(str(config.value("delegation.token.max.lifetime.ms"))),
        int(str(config.value("delegation.token.expiry.time.ms"))),
    )


def require_rules(config: BrokerConfig) -> TokenRules:
    rules = token_rules(config)
    if rules is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return rules


def require_known_client(context: RequestContext) -> None:
    """Who has not proved who it is, or has done so by a token, is told nothing about tokens."""
    protocol = context.security_protocol
    is_nobody = protocol == SecurityProtocol.SSL and context.principal == ANONYMOUS
    if protocol == SecurityProtocol.PLAINTEXT or is_nobody or context.session.is_token_login:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


class TokenCredentials:
    """SCRAM credentials of tokens: the HMAC is the password. Deriving them takes milliseconds, so they are kept."""

    def __init__(self, rules: TokenRules, image: Callable[[], MetadataImage]) -> None:
        self._rules = rules
        self._image = image
        self._kept: dict[tuple[str, str], ScramCredential] = {}

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
        token = self._image().delegation_tokens.get(token_id)
        if token is None or has_ended(token, time.time_ns() // 1_000_000):
            return None
        credential = self._kept.get((mechanism, token_id))
        if credential is None:
            if len(self._kept) >= CREDENTIALS_MAX:
                self._kept.clear()
            credential = self._kept[mechanism, token_id] = self._derive(HASHES[mechanism], token_id)
        return TokenCredential(credential, token.owner.partition(":")[2], token.expiration_timestamp)

    def _derive(self, name: str, token_id: str) -> ScramCredential:
        password = base64.b64encode(token_hmac(self._rules.secret, token_id))
        salt = secrets.token_bytes(32)
        salted = hashlib.pbkdf2_hmac(name, password, salt, ITERATIONS_MIN)
        client_key = hmac.digest(salted, b"Client Key", name)
        server_key = hmac.digest(salted, b"Server Key", name)
        return ScramCredential(salt, hashlib.new(name, client_key).digest(), server_key, ITERATIONS_MIN)
