"""Typed values out of Kafka's client properties; what makes no sense is an InvalidSetting that names the property."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from barnabas.client.errors import InvalidSetting

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def integer(
    properties: Mapping[str, str], name: str, default: int, *, least: int = 0, greatest: int = INT32_MAX
) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        number = int(text.strip())
    except ValueError:
        raise InvalidSetting(name, f"must be a number, not '{text}'.") from None
    if not least <= number <= greatest:
        raise InvalidSetting(name, f"must be between {least} and {greatest}, not {number}.")
    return number


def boolean(properties: Mapping[str, str], name: str, default: bool) -> bool:
    text = properties.get(name)
    if text is None:
        return default
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise InvalidSetting(name, f"must be true or false, not '{text}'.")
    return lowered == "true"


def one_of(properties: Mapping[str, str], name: str, default: str, choices: Collection[str]) -> str:
    """As it is spelt in `choices`; upper and lower case do not matter."""
    text = properties.get(name)
    if text is None:
        return default
    for choice in choices:
        if choice.lower() == text.strip().lower():
            return choice
    raise InvalidSetting(name, f"must be one of {', '.join(choices)}, not '{text}'.")


def listed(properties: Mapping[str, str], name: str, default: str = "") -> list[str]:
    return [item.strip() for item in properties.get(name, default).split(",") if item.strip()]
