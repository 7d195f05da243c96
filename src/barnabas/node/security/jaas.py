"""Login modules of a listener, and the passwords of PLAIN: the options `user_NAME="password"` of its module.

They stand in `listener.name.NAME.MECHANISM.sasl.jaas.config`, or in the section `KafkaServer` of a JAAS file that
`KAFKA_OPTS=-Djava.security.auth.login.config=FILE` names, as Kafka's start scripts have it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from barnabas.client.errors import InvalidSetting
from barnabas.client.security import parse_jaas
from barnabas.node.configuration import ConfigError

USER = "user_"
_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")


def plain_passwords(properties: Mapping[str, str], listener: str) -> dict[str, str]:
    key, text = login_module(properties, listener, "plain", "PlainLoginModule")
    if text is None:
        raise ConfigError(f"{key} is missing: PLAIN on the listener {listener} needs the names and passwords of users.")
    try:
        options = parse_jaas(text)
    except InvalidSetting as error:
        raise ConfigError(f"{key} cannot be read: {str(error).partition(' ')[2]}") from None
    return {name.removeprefix(USER): secret for name, secret in options.items() if name.startswith(USER)}


def login_module(properties: Mapping[str, str], listener: str, mechanism: str, module: str) -> tuple[str, str | None]:
    """Where the module of a mechanism was looked for, and its text if it is there."""
    key = f"listener.name.{listener.lower()}.{mechanism}.sasl.jaas.config"
    text = properties.get(key)
    return (key, text) if text is not None else ("the JAAS file", _module_of_file(listener, module))


def _module_of_file(listener: str, module: str) -> str | None:
    found = _FILE.search(os.environ.get("KAFKA_OPTS", ""))
    if found is None:
        return None
    try:
        text = Path(found[1]).read_text()
    except OSError as error:
        raise ConfigError(f"The JAAS file {found[1]} cannot be read: {error.strerror}.") from error
    for name in (f"{listener.lower()}.KafkaServer", "KafkaServer"):
        section = re.search(rf"(?:^|\s){re.escape(name)}\s*\{{(.*?)\}}\s*;", text, re.DOTALL)
        if section is not None:
            named = re.search(rf"[\w.$]*{module}\b[^;]*;", section[1])
            return named[0] if named is not None else None
    return None
