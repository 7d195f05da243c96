"""How deep a schema may be nested.

Whatever walks through a schema calls itself a few times a level, and Python's stack ends at 1,000 calls wherever the
walk began. So the depth is bounded before: what was parsed once can be printed, compared and parsed again anywhere.
"""

from __future__ import annotations

import re

JSON_LEVELS_MAX = 250
PROTOBUF_LEVELS_MAX = 100
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[\[{]+|[\]}]+")


def is_too_deep(text: str) -> bool:
    """Of JSON: objects and arrays within each other."""
    if text.count("{") + text.count("[") <= JSON_LEVELS_MAX:
        return False
    depth = 0
    for found in _BRACKETS.finditer(_STRING.sub("", text)):
        size = found.end() - found.start()
        depth += size if found[0][0] in "[{" else -size
        if depth > JSON_LEVELS_MAX:
            return True
    return False
