"""Kerberos of a client, and what both ends of a connection need for it.

The library is python-gssapi, of `pip install barnabas[kerberos]`.

    sasl.mechanism=GSSAPI
    sasl.kerberos.service.name=kafka
    sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true \
        keyTab="/etc/anna.keytab" principal="anna@EXAMPLE.COM";
    (or useTicketCache=true: the tickets that kinit has fetched)

With a key table tickets are fetched, and fetched again before they end, by the library; they stay in memory. The file
krb5.conf is that of the variable KRB5_CONFIG, or of -Djava.security.krb5.conf in KAFKA_OPTS.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from barnabas.client.errors import AuthenticationFailed, InvalidSetting

SERVICE = "sasl.kerberos.service.name"
JAAS = "sasl.jaas.config"
NO_PROTECTION = 1
_CONFIGURATION = re.compile(r"-Djava\.security\.krb5\.conf=(\S+)")


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """Who logs in where, and with what."""

    service: str = ""
    principal: str | None = None
    key_table: str | None = None
    ticket_cache: str | None = None  # None without a key table: the default one

    @classmethod
    def of(cls, options: Mapping[str, str], service: str | None) -> KerberosLogin:
        """`options` are those of Krb5LoginModule."""
        key_table = _file_name(options.get("keyTab")) if _is_true(options, "useKeyTab") else None
        principal = options.get("principal")
        if _is_true(options, "useKeyTab") and key_table is None:
            key_table = os.environ.get("KRB5_KTNAME", "/etc/krb5.keytab")
        if key_table is not None and not os.access(key_table, os.R_OK):
            why = "cannot be read" if Path(key_table).exists() else "does not exist"
            raise InvalidSetting(JAAS, f"names the key table {key_table}, which {why}.")
        if key_table is not None and principal is None:
            raise InvalidSetting(JAAS, "has a keyTab and no principal.")
        cache = _file_name(options.get("ticketCache")) if _is_true(options, "useTicketCache") else None
        return cls(service or options.get("serviceName", ""), principal, key_table, cache)


def client_login(properties: Mapping[str, str], options: Mapping[str, str]) -> KerberosLogin:
    login = KerberosLogin.of(options, properties.get(SERVICE, "").strip() or None)
    if not login.service:
        raise InvalidSetting(
            SERVICE, "is missing: GSSAPI, the default of sasl.mechanism, needs the brokers' service, mostly kafka."
        )
    library()
    return login


def library() -> Any:
    """python-gssapi. Raises InvalidSetting where it is not installed."""
    found = _CONFIGURATION.search(os.environ.get("KAFKA_OPTS", ""))
    if found is not None:
        os.environ.setdefault("KRB5_CONFIG", found[1])
    try:
        import gssapi
    except (ImportError, OSError):
        raise InvalidSetting(
            "sasl.mechanism", "is GSSAPI, which needs: pip install barnabas[kerberos] (and MIT's libkrb5-dev)."
        ) from None
    return gssapi


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _file_name(text: str | None) -> str | None:
    """Java takes file: and FILE: before a path."""
    return None if text is None else re.sub("^(?:file:(?://)?)", "", text, flags=re.IGNORECASE)


class GssapiExchange:
    """Tokens until the context is complete, then our choice of the broker's offer."""

    def __init__(self, login: KerberosLogin, host: str) -> None:
        gssapi = library()
        self._errors: type[Exception] = gssapi.exceptions.GSSError
        self._login = login
        self.done = False
        self._chosen = False
        try:
            name = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
            self._context = gssapi.SecurityContext(
                name=name, usage="initiate", creds=self._credentials(gssapi), mech=gssapi.MechType.kerberos
            )
        except self._errors as error:
            raise self._failed(error) from None

    def _credentials(self, gssapi: Any) -> Any:
        login = self._login
        if login.key_table is None and login.ticket_cache is None and login.principal is None:
            return None
        name = None if login.principal is None else gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        store: dict[str, str] = {}
        if login.key_table is not None:
            store = {"client_keytab": login.key_table, "ccache": f"MEMORY:barnabas-{login.principal}"}
        elif login.ticket_cache is not None:
            store = {"ccache": login.ticket_cache}
        return gssapi.Credentials(name=name, usage="initiate", store=store or None)

    def first(self) -> bytes:
        return self._step(None)

    def answer(self, challenge: bytes) -> bytes:
        if self._chosen:
            self.done = True
            return b""
        if not self._context.complete:
            return self._step(challenge)
        return self._choose(challenge)

    def _step(self, token: bytes | None) -> bytes:
        try:
            return self._context.step(token) or b""
        except self._errors as error:
            raise self._failed(error) from None

    def _choose(self, offer: bytes) -> bytes:
        try:
            offered = bytes(self._context.unwrap(offer).message)
            if len(offered) != 4 or not offered[0] & NO_PROTECTION:
                raise AuthenticationFailed("The broker offers no login by GSSAPI without protection of messages.")
            choice = struct.pack(">B3x", NO_PROTECTION) + str(self._context.initiator_name).encode()
            wrapped = bytes(self._context.wrap(choice, False).message)
        except self._errors as error:
            raise self._failed(error) from None
        self._chosen = True
        return wrapped

    def _failed(self, error: Exception) -> AuthenticationFailed:
        return AuthenticationFailed(
            f"The login by Kerberos at the service {self._login.service} failed: {said(error)}."
        )


def default_realm(gssapi: Any) -> str:
    """The realm of krb5.conf, empty if it has none: the library puts it behind a name that has no realm."""
    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).partition("@")[2]


def said(error: Exception) -> str:
    """The reason in the library's words, without what is the same in all of them."""
    text = " ".join(str(error).split())
    minor = re.search(r"Minor \(\d+\): (.*?)(?:, token|$)", text)
    return (minor[1] if minor else text).rstrip(". ")
