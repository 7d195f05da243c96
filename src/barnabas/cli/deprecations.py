"""Older spellings of the console tools' options: both are understood, not both at once, and the older one is told."""

from __future__ import annotations

import sys

from barnabas.cli.connect import key_values
from barnabas.cli.errors import UsageError
from barnabas.cli.options import Option, Parsed, option


def older(name: str, newer: str, takes: str, *, repeated: bool = False, completes: str = "") -> Option:
    return option(
        f"--{name}",
        takes=takes,
        repeated=repeated,
        hidden=True,
        completes=completes,
        help=f"Of older versions: --{newer} is meant.",
    )


def either(parsed: Parsed, newer: str, *names: str) -> list[str]:
    """The values of an option under its newer or an older name."""
    for name in names:
        if name in parsed:
            if newer in parsed:
                raise UsageError(f"Options --{newer} and --{name} cannot be specified together.")
            # On stderr, where Kafka's tools print it among the records.
            print(
                f"Warning: --{name} is deprecated and will be removed in a future version. Use --{newer} instead.",
                file=sys.stderr,
            )
            return parsed.texts(name)
    return parsed.texts(newer)


def client_properties(parsed: Parsed, *, files: tuple[str, ...], pairs: tuple[str, ...]) -> dict[str, str]:
    """The client's properties: of the file, and the `key=value` pairs, which win. The first names are the new ones."""
    from barnabas.client.settings import read_properties

    properties: dict[str, str] = {}
    for path in either(parsed, *files):
        properties |= read_properties(path)
    return properties | key_values(either(parsed, *pairs))
