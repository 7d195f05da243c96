"""Headers that an administrator wants on every answer: `response.http.headers.config`, as Confluent's services read it.

    add X-XSS-Protection: 1; mode=block, "add Cache-Control: no-cache, no-store"

Actions that hold a comma stand in quotes. `set` is like `add` here: what a service sets itself it says once.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from email.utils import formatdate

from barnabas.client.errors import InvalidSetting

SETTING = "response.http.headers.config"
Headers = tuple[tuple[str, str], ...]
_ACTION = re.compile(r"(set|add|setDate|addDate)\s+([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*([\x20-\x7e]*)")


def response_headers(properties: Mapping[str, str]) -> Headers:
    text = properties.get(SETTING, "").strip()
    actions = next(csv.reader([text], skipinitialspace=True)) if text else []
    return tuple(_header(action.strip()) for action in actions)


def _header(action: str) -> tuple[str, str]:
    found = _ACTION.fullmatch(action)
    if found is None:
        raise InvalidSetting(SETTING, f"holds {action}: each action is set or add, a name, a colon and a value.")
    kind, name, value = found.groups()
    return name, _date(value) if kind.endswith("Date") else value


def _date(offset_ms: str) -> str:
    """A time so many milliseconds after the start."""
    import time

    try:
        return formatdate(time.time() + int(offset_ms) / 1000, usegmt=True)
    except (ValueError, OverflowError):
        raise InvalidSetting(SETTING, f"holds {offset_ms}: a date is a number of milliseconds.") from None
