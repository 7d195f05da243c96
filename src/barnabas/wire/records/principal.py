"""A principal as it travels in forwarded requests."""

from __future__ import annotations

from barnabas.wire.schema import Record


class DefaultPrincipalData(Record, versions="0", flexible="0+"):
    type: str = ""
    name: str = ""
    token_authenticated: bool = False
