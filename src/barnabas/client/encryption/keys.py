"""Where the keys come from that encrypt data keys: a file, or a command that asks a key management service.

A file has lines `id: key`, the key being 32 bytes in base64. The last line is the current key; a key is rotated by
adding a line, and a line is removed when nothing that it encrypted is to be read any more.

A command is called as `PROGRAM wrap` with a data key in base64 on its input, and prints `id wrapped`; and as
`PROGRAM unwrap ID` with the wrapped key in base64 on its input, and prints the data key. Both in base64.
"""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import subprocess
from pathlib import Path
from typing import Protocol

from barnabas.client.encryption import KEYS
from barnabas.client.errors import ClientError, InvalidSetting

KEY_BYTES = 32
NONCE_BYTES = 12
COMMAND_LIMIT_S = 30.0


class KeyUnavailable(ClientError):
    """A data key cannot be wrapped or unwrapped. The text has no key in it."""


class Keys(Protocol):
    def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        """The id of the current key, and the data key encrypted by it."""
        ...

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes: ...


def open_keys(text: str) -> Keys:
    kind, _, where = text.partition(":")
    if kind == "file" and where:
        return KeyFile(Path(where.removeprefix("//")))
    if kind == "command" and where:
        return KeyCommand(shlex.split(where))
    raise InvalidSetting(KEYS, "must be file:PATH or command:PROGRAM.")


class KeyFile:
    """Read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = (-1, -1)
        self._keys: dict[str, bytes] = {}
        self._read()

    def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._read()
        key_id, key = next(reversed(self._keys.items()))
        nonce = os.urandom(NONCE_BYTES)
        return key_id, nonce + AESGCM(key).encrypt(nonce, data_key, key_id.encode())

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if key_id not in self._keys:
            self._read()
        key = self._keys.get(key_id)
        if key is None:
            raise KeyUnavailable(f"{self._path} has no key {key_id!r}.")
        try:
            return AESGCM(key).decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], key_id.encode())
        except (InvalidTag, ValueError):
            raise KeyUnavailable(f"A data key was not encrypted by the key {key_id!r} of {self._path}.") from None

    def _read(self) -> None:
        try:
            state = self._path.stat()
            if (state.st_mtime_ns, state.st_size) == self._seen:
                return
            lines = self._path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise InvalidSetting(KEYS, f"names {self._path}, which cannot be read: {why}.") from None
        keys: dict[str, bytes] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key_id, _, encoded = line.partition(":")
            key = _decoded(encoded.strip())
            if key is None or len(key) != KEY_BYTES or not 0 < len(key_id.strip().encode()) < 256:
                raise InvalidSetting(KEYS, f"names {self._path}, whose line {number} is no id and 32 bytes in base64.")
            keys[key_id.strip()] = key
        if not keys:
            raise InvalidSetting(KEYS, f"names {self._path}, which has no key.")
        self._keys, self._seen = keys, (state.st_mtime_ns, state.st_size)


class KeyCommand:
    def __init__(self, command: list[str]) -> None:
        self._command = command

    def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        key_id, _, encoded = self._run(data_key, "wrap").partition(" ")
        wrapped = _decoded(encoded.strip())
        if not wrapped or not 0 < len(key_id.encode()) < 256:
            raise KeyUnavailable(f"{self._command[0]} wrap did not print an id and a key in base64.")
        return key_id, wrapped

    def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        key = _decoded(self._run(wrapped, "unwrap", key_id))
        if key is None or len(key) != KEY_BYTES:
            raise KeyUnavailable(f"{self._command[0]} unwrap did not print 32 bytes in base64.")
        return key

    def _run(self, data: bytes, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                input=base64.b64encode(data),
                capture_output=True,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KeyUnavailable(f"{self._command[0]} cannot be run: {type(error).__name__}.") from None
        if done.returncode != 0:
            raise KeyUnavailable(f"{self._command[0]} {arguments[0]} ended with the code {done.returncode}.")
        return done.stdout.decode(errors="replace").strip()


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
