"""Java's .properties format, which nodes and clients are configured in: read and written.

One deviation from Java: a file that is valid UTF-8 is read as UTF-8; only others are taken for ISO-8859-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}


class InvalidProperties(ValueError):
    """A sentence that says where the text is not of this format."""


def decode_properties(data: bytes) -> dict[str, str]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("iso-8859-1")
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; of a key that comes twice the last value counts."""
    return dict(map(_key_and_value, _logical_lines(text)))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, those that end in a backslash joined with the next."""
    joined = ""
    for natural in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = natural.lstrip(_BLANK)
        if not joined and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
        else:
            yield joined + line
            joined = ""
    if joined:
        yield joined


def _key_and_value(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return _unescape(line[:end]), _unescape(rest)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while (backslash := text.find("\\", position)) >= 0:
        parts.append(text[position:backslash])
        escaped = text[backslash + 1 : backslash + 2]
        position = backslash + 2
        if escaped == "u":
            parts.append(_unicode_escape(text[position : position + 4]))
            position += 4
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    parts.append(text[position:])
    # A character outside the basic plane is written as two escapes, its surrogates.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode_escape(digits: str) -> str:
    if len(digits) < 4 or digits.strip("0123456789abcdefABCDEF"):
        raise InvalidProperties(f"\\u{digits} is not an escape: four hexadecimal digits must follow \\u.")
    return chr(int(digits, 16))


def format_properties(properties: Mapping[str, str]) -> str:
    """Text that any reader of the format, Java's included, turns back into these properties."""
    return "".join(f"{_escape(key, in_key=True)}={_escape(value)}\n" for key, value in properties.items())


def _escape(text: str, *, in_key: bool = False) -> str:
    escaped = "".join(_escape_character(character, in_key) for character in text)
    return f"\\{escaped}" if escaped[:1] == " " and not in_key else escaped


def _escape_character(character: str, in_key: bool) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if in_key and character in "=:#! ":
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[index] << 8 | units[index + 1]:04x}" for index in range(0, len(units), 2))
