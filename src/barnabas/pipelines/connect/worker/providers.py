"""Config providers: `${file:/path:key}`, `${dir:/path:file}`, `${env:NAME}` in connectors' settings.

They are replaced when a connector is handed to the plane, and never shown: REST, topics and logs have the reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.client.errors import InvalidSetting
from barnabas.client.settings import read_properties
from barnabas.pipelines.connect.errors import ConfigError

# A beginning ends the one before it, so that a text of many beginnings is searched once and not from each of them.
REFERENCE = re.compile(r"\$\{((?:(?!\$\{)[^}])*)\}")
KINDS = {"FileConfigProvider": "file", "DirectoryConfigProvider": "dir", "EnvVarConfigProvider": "env"}


class Providers:
    def __init__(self, properties: Mapping[str, str]) -> None:
        self._kinds: dict[str, str] = {}
        self._allowed: dict[str, list[str]] = {}
        for name in [each.strip() for each in properties.get("config.providers", "").split(",") if each.strip()]:
            given = properties.get(f"config.providers.{name}.class", "").rpartition(".")[2]
            if given not in KINDS:
                known = ", ".join(KINDS)
                raise InvalidSetting(f"config.providers.{name}.class", f"is {given or 'missing'}: {known} are known.")
            self._kinds[name] = KINDS[given]
            paths = properties.get(f"config.providers.{name}.param.allowed.paths", "")
            self._allowed[name] = [each.strip() for each in paths.split(",") if each.strip()]

    def resolve(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {name: REFERENCE.sub(self._found, value) for name, value in settings.items()}

    def _found(self, reference: re.Match[str]) -> str:
        name, colon, rest = reference[1].partition(":")
        path, _, key = rest.rpartition(":")
        kind = self._kinds.get(name)
        if kind is None or not colon:
            return reference[0]
        if kind == "env":
            value = os.environ.get(key)
        else:
            self._check(name, path)
            if kind == "dir":
                self._check(name, str(Path(path) / Path(key).name))  # it may be a link
            value = self._in_file(kind, path, key)
        if value is None:
            raise ConfigError(f"{reference[0]} names nothing: there is no {key} in {path or 'the environment'}")
        return value

    @staticmethod
    def _in_file(kind: str, path: str, key: str) -> str | None:
        if kind == "file":
            try:
                return read_properties(path).get(key)
            except InvalidSetting as error:
                raise ConfigError(str(error)) from None
        try:
            return (Path(path) / Path(key).name).read_text()
        except OSError as error:
            raise ConfigError(f"{path}/{key} cannot be read: {error.strerror}") from None

    def _check(self, name: str, path: str) -> None:
        allowed = self._allowed[name]
        real = Path(path).resolve()
        if allowed and not any(real.is_relative_to(Path(each).resolve()) for each in allowed):
            raise ConfigError(f"{path} is not among the allowed paths of the config provider {name}")
