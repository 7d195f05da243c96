"""What commands show of their user to an HTTP service, and whom they trust: of Connect's workers and the SQL server."""

from __future__ import annotations

import base64
import getpass
import ssl
import sys
from collections.abc import Mapping

from barnabas.cli.errors import UsageError


def authorization(user: str | None, password: str | None) -> dict[str, str]:
    """The header. A password that is not given is asked for, so that it need not stand in the list of processes."""
    if user is None:
        if password is not None:
            raise UsageError("--password is given, and --user is not.")
        return {}
    if ":" in user:
        raise UsageError("A user's name has no colon.")
    if password is None:
        if not sys.stdin.isatty():
            raise UsageError(f"The password of {user} is missing: --password.")
        password = getpass.getpass(f"Password of {user}: ")
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def tls_context(properties: Mapping[str, str], ca: str | None = None) -> ssl.SSLContext:
    """Of `ssl.*`; `ca` is a file with the certificates to trust, PEM or a key store without a password."""
    from barnabas.client.errors import InvalidSetting
    from barnabas.client.security import SecuritySettings

    given = {key: value for key, value in properties.items() if key.startswith("ssl.")}
    if ca is not None:
        given["ssl.truststore.location"] = ca
    try:
        return SecuritySettings.from_properties(given | {"security.protocol": "SSL"}).ssl_context()
    except InvalidSetting as error:
        raise UsageError(str(error)) from None
