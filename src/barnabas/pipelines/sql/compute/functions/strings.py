"""Text. Positions count from 1, and from the end where they are negative."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import uuid
from typing import Any

from barnabas.pipelines.sql.compute.java import EvaluationError
from barnabas.pipelines.sql.compute.registry import function


@function("CHR", "INTEGER -> STRING")
def character(code: int) -> str | None:
    """The character of a code point, or of an escape such as '\\u004b'."""
    return chr(code) if 0 <= code <= 0x10FFFF else None


@function("CHR", "STRING -> STRING")
def character_escaped(text: str) -> str | None:
    found = re.sub(r"\\u+([0-9A-Fa-f]{4})", lambda match: chr(int(match.group(1), 16)), text)
    if not text.startswith("\\u"):
        return None
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@function("CONCAT", "STRING, STRING* -> STRING", nulls=True)
def concat(*texts: str | None) -> str:
    """Texts one behind the other; nulls are left out."""
    return "".join(one for one in texts if one is not None)


@function("CONCAT", "BYTES, BYTES* -> BYTES", nulls=True)
def concat_bytes(*texts: bytes | None) -> bytes:
    return b"".join(one for one in texts if one is not None)


@function("CONCAT_WS", "STRING, STRING, STRING* -> STRING", "BYTES, BYTES, BYTES* -> BYTES", nulls=True)
def concat_ws(separator: Any, *texts: Any) -> Any:
    """Texts with a separator between them; nulls are left out."""
    return None if separator is None else separator.join(one for one in texts if one is not None)


@function("ENCODE", "STRING, STRING, STRING -> STRING")
def encode(text: str, given: str, wanted: str) -> str:
    """Text from one encoding into another: hex, utf8, ascii, base64."""
    return _written(_read(text, given), wanted)


def _read(text: str, encoding: str) -> bytes:
    name = encoding.lower()
    try:
        if name == "hex":
            if text[:2].lower() == "0x":
                return binascii.unhexlify(text[2:].zfill(len(text) + len(text) % 2 - 2))
            quoted = len(text) > 2 and text[:2].lower() == "x'" and text[-1] == "'"
            return binascii.unhexlify(text[2:-1] if quoted else text)
        if name == "base64":
            return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError(f"'{text}' is not {name}") from None
    if name in ("utf8", "ascii"):
        return text.encode("utf-8" if name == "utf8" else "ascii", "replace")
    raise EvaluationError(f"Supported input encodings are: hex, utf8, ascii and base64, not {encoding}")


def _written(data: bytes, encoding: str) -> str:
    name = encoding.lower()
    if name == "hex":
        return data.hex()
    if name == "base64":
        return base64.b64encode(data).decode()
    if name in ("utf8", "ascii"):
        return data.decode("utf-8" if name == "utf8" else "ascii", "replace")
    raise EvaluationError(f"Supported output encodings are: hex, utf8, ascii and base64, not {encoding}")


@function("INITCAP", "STRING -> STRING")
def initcap(text: str) -> str:
    """Each word with a capital first letter."""
    return re.sub(r"\S+", lambda match: match.group()[:1].upper() + match.group()[1:].lower(), text)


@function("INSTR", "STRING, STRING, INTEGER?, INTEGER? -> INTEGER")
def instr(text: str, part: str, position: int = 1, occurrence: int = 1) -> int:
    """Where a part of a text begins, or 0: INSTR(text, part [, position [, occurrence]])."""
    if position == 0 or occurrence < 1:
        return 0
    if position > 0:
        at = position - 1
        for count in range(occurrence):
            at = text.find(part, at + (1 if count else 0))
            if at < 0:
                return 0
        return at + 1
    at = len(text) + position + 1
    for _ in range(occurrence):
        at = text.rfind(part, 0, at - 1 + len(part) if at - 1 + len(part) >= 0 else 0)
        if at < 0:
            return 0
    return at + 1


@function("LCASE", "STRING -> STRING")
def lower(text: str) -> str:
    """Text in lower case."""
    return text.lower()


@function("UCASE", "STRING -> STRING")
def upper(text: str) -> str:
    """Text in upper case."""
    return text.upper()


@function("LEN", "STRING -> INTEGER", "BYTES -> INTEGER")
def length(text: Any) -> int:
    """The length of a text or of bytes."""
    return len(text) if isinstance(text, bytes) else len(text.encode("utf-16-le")) // 2


@function("LPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def left_pad(text: Any, size: int, padding: Any) -> Any:
    """Text of a given length: padded on the left, or cut."""
    if not padding or size < 0:
        return None
    return (padding * size)[: max(size - len(text), 0)] + text[:size]


@function("RPAD", "STRING, INTEGER, STRING -> STRING", "BYTES, INTEGER, BYTES -> BYTES")
def right_pad(text: Any, size: int, padding: Any) -> Any:
    """Text of a given length: padded on the right, or cut."""
    if not padding or size < 0:
        return None
    return text[:size] + (padding * size)[: max(size - len(text), 0)]


def _mask_letter(letter: str, masks: tuple[str | None, ...]) -> str:
    upper_mask, lower_mask, digit, other = masks
    chosen = other
    if letter.isupper():
        chosen = upper_mask
    elif letter.islower():
        chosen = lower_mask
    elif letter.isdigit():
        chosen = digit
    return letter if chosen is None else chosen


def _masks(given: tuple[str | None, ...]) -> tuple[str | None, ...]:
    if not given:
        return ("X", "x", "n", "-")
    return tuple(None if one is None else one[:1] for one in given)


MASKED = "STRING{}, STRING, STRING, STRING, STRING -> STRING"


@function("MASK", "STRING -> STRING", MASKED.format(""), nulls=True)
def mask(text: str | None, *masks: str | None) -> str | None:
    """Letters as X and x, digits as n, all else as -: MASK(text [, 'X', 'x', 'n', '-'])."""
    return None if text is None else "".join(_mask_letter(one, _masks(masks)) for one in text)


def _partly(text: str | None, start: int, end: int, masks: tuple[str | None, ...]) -> str | None:
    if text is None:
        return None
    middle = "".join(_mask_letter(one, _masks(masks)) for one in text[start:end])
    return text[:start] + middle + text[end:]


@function("MASK_LEFT", "STRING, INTEGER -> STRING", MASKED.format(", INTEGER"), nulls=True)
def mask_left(text: str | None, count: int, *masks: str | None) -> str | None:
    """The first characters masked."""
    return _partly(text, 0, count, masks)


@function("MASK_KEEP_LEFT", "STRING, INTEGER -> STRING", MASKED.format(", INTEGER"), nulls=True)
def mask_keep_left(text: str | None, count: int, *masks: str | None) -> str | None:
    """All but the first characters masked."""
    return _partly(text, count, len(text or ""), masks)


@function("MASK_RIGHT", "STRING, INTEGER -> STRING", MASKED.format(", INTEGER"), nulls=True)
def mask_right(text: str | None, count: int, *masks: str | None) -> str | None:
    """The last characters masked."""
    return _partly(text, max(len(text or "") - count, 0), len(text or ""), masks)


@function("MASK_KEEP_RIGHT", "STRING, INTEGER -> STRING", MASKED.format(", INTEGER"), nulls=True)
def mask_keep_right(text: str | None, count: int, *masks: str | None) -> str | None:
    """All but the last characters masked."""
    return _partly(text, 0, max(len(text or "") - count, 0), masks)


@function("MD5", "STRING -> STRING")
def md5(text: str) -> str:
    """The MD5 of a text, in hex."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _pattern(text: str) -> re.Pattern[str]:
    """Java's regular expressions, as far as Python's are other: named groups and possessive quantifiers are alike."""
    try:
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", text))
    except re.error as error:
        raise EvaluationError(f"Invalid regular expression pattern: {text}: {error}") from None


@function("REGEXP_EXTRACT", "STRING, STRING, INTEGER? -> STRING")
def regexp_extract(pattern: str, text: str, group: int = 0) -> str | None:
    """What a pattern finds first: REGEXP_EXTRACT(pattern, text [, group])."""
    found = _pattern(pattern).search(text)
    return None if found is None or group > (found.re.groups or 0) else found.group(group)


@function("REGEXP_EXTRACT_ALL", "STRING, STRING, INTEGER? -> ARRAY<STRING>")
def regexp_extract_all(pattern: str, text: str, group: int = 0) -> list[str | None] | None:
    """All that a pattern finds."""
    compiled = _pattern(pattern)
    return None if group > compiled.groups else [found.group(group) for found in compiled.finditer(text)]


@function("REGEXP_REPLACE", "STRING, STRING, STRING -> STRING")
def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """A text with all that a pattern finds replaced; $1 is the first group."""
    python = re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\", "\\\\").replace("\\\\$", "\x00"))
    return _pattern(pattern).sub(python.replace("\x00", "$"), text)


@function("REGEXP_SPLIT_TO_ARRAY", "STRING, STRING -> ARRAY<STRING>")
def regexp_split(text: str, pattern: str) -> list[str]:
    """A text cut where a pattern finds something."""
    found, start = [], 0
    for match in _pattern(pattern).finditer(text):
        if match.end() == match.start() and match.start() in (0, len(text)):
            continue
        found.append(text[start : match.start()])
        start = match.end()
    return [*found, text[start:]]


@function("REPLACE", "STRING, STRING, STRING -> STRING")
def replace(text: str, old: str, new: str) -> str:
    """A text with every occurrence of another replaced."""
    return text.replace(old, new)


@function("SPLIT", "STRING, STRING -> ARRAY<STRING>", "BYTES, BYTES -> ARRAY<BYTES>")
def split(text: Any, delimiter: Any) -> list[Any]:
    """A text cut at a delimiter; an empty one cuts between all characters."""
    if not delimiter and text:
        return [text[at : at + 1] for at in range(len(text))]
    return [text] if not delimiter else list(text.split(delimiter))


@function("SPLIT_TO_MAP", "STRING, STRING, STRING -> MAP<STRING,STRING>")
def split_to_map(text: str, entry: str, key_value: str) -> dict[str, str] | None:
    """Entries of a text as a map: SPLIT_TO_MAP('a=1;b=2', ';', '=')."""
    if not entry or not key_value:
        return None
    pairs = (one.split(key_value) for one in text.split(entry) if one)
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}  # what comes behind a second delimiter is left out


@function("SUBSTRING", "STRING, INTEGER, INTEGER? -> STRING", "BYTES, INTEGER, INTEGER? -> BYTES")
def substring(text: Any, position: int, size: int | None = None) -> Any:
    """A part of a text: SUBSTRING(text, position [, length])."""
    if position == 0 and isinstance(text, str):
        start = 0
    else:
        start = position - 1 if position > 0 else len(text) + position
    start = max(min(start, len(text)), 0)
    end = len(text) if size is None else max(start, min(start + size, len(text)))
    return text[start:end]


@function("TRIM", "STRING -> STRING")
def trim(text: str) -> str:
    """Text without blanks around it."""
    return text.strip("".join(map(chr, range(33))))


@function("UUID", "-> STRING")
def new_uuid() -> str:
    """A new random UUID."""
    return str(uuid.uuid4())


@function("UUID", "BYTES -> STRING")
def uuid_of(data: bytes) -> str | None:
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else None
