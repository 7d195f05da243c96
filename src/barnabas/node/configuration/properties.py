"""A node's file of properties; what is wrong with it is an error of its configuration."""

from __future__ import annotations

from pathlib import Path

from barnabas.node.configuration.definition import ConfigError
from barnabas.wire import properties as java_properties
from barnabas.wire.properties import InvalidProperties, format_properties

__all__ = ["format_properties", "parse_properties", "read_properties"]


def read_properties(path: str | Path) -> dict[str, str]:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error.strerror}.") from None
    try:
        return java_properties.decode_properties(data)
    except InvalidProperties as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    try:
        return java_properties.parse_properties(text)
    except InvalidProperties as error:
        raise ConfigError(str(error)) from None
