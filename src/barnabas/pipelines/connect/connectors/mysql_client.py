"""Connections to MariaDB and MySQL. A turn opens some, so their TLS context is made once in a process.

Without settings of its own the driver uses TLS where the server has it and checks no certificate; all the same it reads
the machine's certificates for each connection, which takes longer than a small turn.
"""

from __future__ import annotations

import functools
import ssl
from typing import Any

import pymysql


@functools.cache
def unchecked_context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


class MySqlConnection(pymysql.connections.Connection):  # type: ignore[misc]
    def _create_ssl_ctx(self, given: Any) -> Any:
        return super()._create_ssl_ctx(given) if given else unchecked_context()
