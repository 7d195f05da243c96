"""The JSON files that tools take lists of partitions from."""

from __future__ import annotations

import json
from typing import Any

from barnabas.cli.errors import ToolFailed

TYPES: dict[type[Any], str] = {str: "text", int: "a number", list: "a list"}


def read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError:
        raise ToolFailed(f"Unable to read file {path}") from None
    except ValueError:
        raise ToolFailed("The input string is not a valid JSON") from None


def entries(content: Any, name: str, where: str) -> list[Any]:
    """The list of this name, nothing if there is none."""
    found = content.get(name, []) if isinstance(content, dict) else None
    if not isinstance(found, list):
        raise ToolFailed(f"{where} has no list of {name}.")
    return found


def field(entry: Any, name: str, kind: type[Any], where: str) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ToolFailed(f"An entry of {where} has no {name}, or not as {TYPES[kind]}: {json.dumps(entry)}")
    return value
