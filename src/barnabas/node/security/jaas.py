"""Passwords of PLAIN: the options `user_NAME="password"` of a listener's login module.

They stand in `listener.name.NAME.plain.sasl.jaas.config`, or in the section `KafkaServer` of a JAAS file that
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
    key = f"listener.name.{listener.lower()}.plain.sasl.jaas.config"
    text = properties.get(key)
    if text is None:
        text = _section_of_file(listener)
        key = "the JAAS file"
    if text is None:
        raise ConfigError(f"{key} is missing: PLAIN on the listener {listener} needs the names and passwords of users.")
    try:
        options = parse_jaas(text)
    except InvalidSetting as error:
        raise ConfigError(f"{key} cannot be read: {str(error).partition(' ')[2]}") from None
    return {name.removeprefix(USER): secret for name, secret in options.items() if name.startswith(USER)}


def _section_of_file(listener: str) -> str | None:
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
            plain = re.search(r"[\w.$]*PlainLoginModule\b[^;]*;", section[1])
            return plain[0] if plain is not None else None
    return None
