"""GSSAPI on a listener: the node's key table, and the rules that make users of principals."""

from __future__ import annotations

import logging
from typing import Any

from barnabas.client.errors import InvalidSetting
from barnabas.client.kerberos import KerberosLogin, default_realm, library, said
from barnabas.client.security import parse_jaas
from barnabas.core.security.gssapi import ContextFailed, GssapiServer
from barnabas.core.security.kerberos_names import KEY, KerberosRules
from barnabas.core.security.principals import InvalidRule
from barnabas.node.configuration import BrokerConfig, ConfigError
from barnabas.node.log_limiter import LogLimiter
from barnabas.node.security.jaas import login_module

log = logging.getLogger("barnabas.security")


class KerberosLogins:
    """Makes the exchange of each client that logs in by GSSAPI."""

    def __init__(self, listener: str, login: KerberosLogin, rules: tuple[str, ...]) -> None:
        """Raises ConfigError if the key table has no key of the principal, or a rule cannot be read."""
        self._listener = listener
        self._limiter = LogLimiter()
        self._gssapi = gssapi = library()
        any_name = login.principal in (None, "*")
        try:
            name = None if any_name else gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
            store = None if login.key_table is None else {"keytab": login.key_table}
            self._credentials = gssapi.Credentials(name=name, usage="accept", store=store)
        except gssapi.exceptions.GSSError as error:
            raise ConfigError(
                f"GSSAPI on the listener {listener} has no key of {login.principal}: {said(error)}."
            ) from None
        try:
            self._rules = KerberosRules(rules, default_realm(gssapi))
        except InvalidRule as error:
            raise ConfigError(str(error)) from None

    @classmethod
    def of(cls, config: BrokerConfig, listener: str) -> KerberosLogins:
        prefix = f"listener.name.{listener.lower()}."
        key, text = login_module(config.properties, listener, "gssapi", "Krb5LoginModule")
        if text is None:
            raise ConfigError(f"{key} is missing: GSSAPI on the listener {listener} needs the node's key table.")
        given = config.properties.get(prefix + KEY)
        rules = config.value(KEY) if given is None else tuple(each.strip() for each in given.split(","))
        assert isinstance(rules, tuple | list)
        try:
            login = KerberosLogin.of(parse_jaas(text), None)
            return cls(listener, login, tuple(str(rule) for rule in rules))
        except InvalidSetting as error:
            raise ConfigError(f"GSSAPI on the listener {listener}: {error}") from None

    def exchange(self) -> GssapiServer:
        return GssapiServer(Accepting(self._gssapi, self._credentials), self._rules.name_of, self._tell)

    def _tell(self, why: str) -> None:
        if self._limiter.allows("refused"):
            log.info(
                "a login by GSSAPI on the listener %s was refused: %s (more are not logged for a minute)",
                self._listener,
                why,
            )


class Accepting:
    """One client's context."""

    def __init__(self, gssapi: Any, credentials: Any) -> None:
        self._errors: type[Exception] = gssapi.exceptions.GSSError
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._context.__DEFER_STEP_ERRORS__ = False  # a forged ticket is refused now, and not at the next token

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        try:
            return bytes(self._context.step(token) or b"")
        except self._errors as error:
            raise ContextFailed(said(error)) from None

    def wrap(self, message: bytes) -> bytes:
        return bytes(self._context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        try:
            return bytes(self._context.unwrap(message).message)
        except self._errors as error:
            raise ContextFailed(said(error)) from None
