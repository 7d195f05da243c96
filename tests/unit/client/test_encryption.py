"""Envelopes, key files and commands, without a cluster."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest

from barnabas.client.encryption import KEYS, TOPICS, encryption_of
from barnabas.client.encryption.envelope import HEADER, Encryption
from barnabas.client.encryption.keys import KeyFile, KeyUnavailable, open_keys
from barnabas.client.errors import InvalidSetting
from barnabas.client.settings import ClientSettings

# A key management service that knows one key and turns it upside down.
SERVICE = """
import base64, sys
data = base64.b64decode(sys.stdin.read())
turned = base64.b64encode(data[::-1]).decode()
if sys.argv[1:] == ["wrap"]:
    print("master-7", turned)
elif sys.argv[1:] == ["unwrap", "master-7"]:
    print(turned)
else:
    sys.exit(3)
"""


def line(name: str) -> str:
    return f"{name}: {base64.b64encode(os.urandom(32)).decode()}\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("# the oldest is the first\n" + line("2025"))
    return path


def test_what_was_sealed_is_opened_and_looks_like_nothing(path: Path) -> None:
    encryption = Encryption(["orders", "pay*"], KeyFile(path))
    sealed, (name, header) = encryption.seal(b"k", b"a secret value")
    assert name == HEADER
    assert b"secret" not in sealed + header
    assert Encryption([], KeyFile(path)).open(b"k", sealed, header) == b"a secret value"
    assert encryption.seal(b"k", b"a secret value")[0] != sealed
    assert [encryption.covers(topic) for topic in ("orders", "orders2", "payments", "pa")] == [True, False, True, False]


def test_a_key_is_rotated_by_a_line_and_old_values_stay_readable_until_theirs_is_gone(path: Path) -> None:
    before, header = Encryption([], KeyFile(path)).seal(None, b"old")
    old = path.read_text()
    path.write_text(old + line("2026"))
    encryption = Encryption([], KeyFile(path))
    after, new_header = encryption.seal(None, b"new")
    assert (b"2025" in header[1], b"2026" in new_header[1]) == (True, True)
    assert encryption.open(None, before, header[1]) == b"old"
    path.write_text(path.read_text().removeprefix(old))
    without = Encryption([], KeyFile(path))
    assert without.open(None, after, new_header[1]) == b"new"
    with pytest.raises(KeyUnavailable, match="has no key '2025'"):
        without.open(None, before, header[1])


def test_a_value_that_was_changed_or_moved_is_found_out(path: Path) -> None:
    encryption = Encryption([], KeyFile(path))
    sealed, (_, header) = encryption.seal(b"anna", b"value")
    for key, value, envelope in (
        (b"bob", sealed, header),
        (b"anna", sealed[:-1] + bytes((sealed[-1] ^ 1,)), header),
        (b"anna", b"", header),
        (b"anna", sealed, header[:-1] + bytes((header[-1] ^ 1,))),
        (b"anna", sealed, b""),
        (b"anna", sealed, b"\x01W\xff"),
        (b"anna", sealed, b"\x01S12345678"),
        (b"anna", sealed, b"\x02Wxx"),
    ):
        with pytest.raises(KeyUnavailable):
            encryption.open(key, value, envelope)


def test_a_command_wraps_and_unwraps(tmp_path: Path) -> None:
    (tmp_path / "kms.py").write_text(SERVICE)
    keys = open_keys(f"command:{sys.executable} {tmp_path}/kms.py")
    sealed, (_, header) = Encryption([], keys).seal(b"k", b"value")
    assert Encryption([], keys).open(b"k", sealed, header) == b"value"
    with pytest.raises(KeyUnavailable, match="unwrap ended with the code 3"):
        keys.unwrap("another", b"x")
    with pytest.raises(KeyUnavailable, match="cannot be run"):
        open_keys("command:/nowhere/kms").wrap(bytes(32))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({TOPICS: "orders"}, "barnabas.encryption.keys is missing"),
        ({KEYS: "vault"}, "must be file:PATH or command:PROGRAM"),
        ({KEYS: "file:/nowhere"}, "which cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_told(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidSetting, match=sentence):
        encryption_of(ClientSettings.from_properties({"bootstrap.servers": "localhost:1", **given}))


def test_a_bad_line_is_told_without_the_key(path: Path) -> None:
    path.write_text("a: c2hvcnQ=\n")
    with pytest.raises(InvalidSetting) as refused:
        KeyFile(path)
    assert "line 1" in str(refused.value)
    assert "c2hvcnQ" not in str(refused.value)
