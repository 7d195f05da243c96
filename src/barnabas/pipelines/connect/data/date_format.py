"""Java's SimpleDateFormat in UTC, as far as people write patterns for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
OFFSET = r"[+-]\d\d:?\d\d|Z|UTC|GMT"


class DateFormat:
    """`ValueError` if the pattern is none."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))
        following = [_is_number(*part) for part in self._parts[1:]] + [False]
        reading = (_reading(*part, follows) for part, follows in zip(self._parts, following, strict=True))
        self._regex = re.compile("".join(reading))

    def format(self, time: datetime) -> str:
        return "".join(text if letter == "" else WRITTEN[letter](time, width) for letter, width, text in self._parts)

    def parse(self, text: str) -> datetime | None:
        """None if the text does not match. What follows the match is ignored, as in Java."""
        found = self._regex.match(text)
        if found is None:
            return None
        given: dict[str, str] = {}
        letters = [letter for letter, _, _ in self._parts if letter]
        for letter, value in zip(letters, found.groups(), strict=True):
            given[letter] = value
        try:
            return _assembled(given, [(letter, width) for letter, width, _ in self._parts])
        except (ValueError, OverflowError):
            return None


@lru_cache(maxsize=64)
def date_format(pattern: str) -> DateFormat:
    return DateFormat(pattern)


def _parts(pattern: str) -> Iterator[tuple[str, int, str]]:
    """(letter, width, "") of a field, ("", 0, text) of a text."""
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end, text = _quoted(pattern, at + 1)
            yield "", 0, text
            at = end
        elif letter.isascii() and letter.isalpha():
            if letter not in WRITTEN:
                raise ValueError(f"Illegal pattern character '{letter}'")
            width = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            yield letter, width, ""
            at += width
        else:
            yield "", 0, letter
            at += 1


def _quoted(pattern: str, at: int) -> tuple[int, str]:
    if pattern[at : at + 1] == "'":
        return at + 1, "'"
    text = ""
    while at < len(pattern):
        if pattern[at] != "'":
            text += pattern[at]
            at += 1
        elif pattern[at + 1 : at + 2] == "'":
            text += "'"
            at += 2
        else:
            return at + 1, text
    raise ValueError("Unterminated quote")


def _number(of: Callable[[datetime], int]) -> Callable[[datetime, int], str]:
    return lambda time, width: str(of(time)).rjust(width, "0")


def _year(time: datetime, width: int) -> str:
    return f"{time.year % 100:02}" if width == 2 else str(time.year).rjust(width, "0")


def _month(time: datetime, width: int) -> str:
    name = MONTHS[time.month - 1]
    return name if width > 3 else name[:3] if width == 3 else str(time.month).rjust(width, "0")


def _day(time: datetime, width: int) -> str:
    return DAYS[time.weekday()] if width > 3 else DAYS[time.weekday()][:3]


WRITTEN: dict[str, Callable[[datetime, int], str]] = {
    "y": _year,
    "Y": lambda time, width: _year(time.replace(month=1, day=4, year=time.isocalendar().year), width),
    "u": _number(lambda time: time.isoweekday()),
    "M": _month,
    "L": _month,
    "d": _number(lambda time: time.day),
    "D": _number(lambda time: time.timetuple().tm_yday),
    "w": _number(lambda time: time.isocalendar().week),
    "H": _number(lambda time: time.hour),
    "k": _number(lambda time: time.hour or 24),
    "K": _number(lambda time: time.hour % 12),
    "h": _number(lambda time: time.hour % 12 or 12),
    "m": _number(lambda time: time.minute),
    "s": _number(lambda time: time.second),
    "S": _number(lambda time: time.microsecond // 1000),
    "a": lambda time, _: "AM" if time.hour < 12 else "PM",
    "E": _day,
    "G": lambda _, __: "AD",
    "z": lambda _, width: "Coordinated Universal Time" if width > 3 else "UTC",
    "Z": lambda _, __: "+0000",
    "X": lambda _, __: "Z",
}


def _is_number(letter: str, width: int, _: str) -> bool:
    return letter != "" and letter not in "EaGzZX" and not (letter in "ML" and width > 2)


def _reading(letter: str, width: int, text: str, next_is_number: bool) -> str:
    """A number takes all digits there are, unless another number follows at once: then it has its width."""
    if letter == "":
        return re.escape(text)
    if letter in "ML" and width > 2:
        return "((?i:" + "|".join(MONTHS) + "|" + "|".join(name[:3] for name in MONTHS) + "))"
    if letter == "E":
        return "((?i:" + "|".join(DAYS) + "|" + "|".join(name[:3] for name in DAYS) + "))"
    if letter == "a":
        return "((?i:am|pm))"
    if letter == "G":
        return "(AD|BC)"
    if letter in "zZX":
        return f"({OFFSET})"
    return rf"(\d{{{width}}})" if next_is_number else r"(\d+)"


def _assembled(given: dict[str, str], widths: list[tuple[str, int]]) -> datetime:
    def number(letter: str, default: int) -> int:
        return int(given[letter]) if letter in given else default

    year = number("y", number("Y", 1970))
    if dict(widths).get("y") == 2 and "y" in given and len(given["y"]) == 2:
        now = datetime.now(UTC).year
        year += now // 100 * 100
        year -= 100 if year > now + 20 else 0
    month = given.get("M", given.get("L", "1"))
    month_number = int(month) if month.isdigit() else [name[:3].lower() for name in MONTHS].index(month[:3].lower()) + 1
    hour = number("H", number("k", 0) % 24)
    if "h" in given or "K" in given:
        hour = number("h", number("K", 0)) % 12 + (12 if given.get("a", "am").lower() == "pm" else 0)
    zone = next((given[letter] for letter in "zZX" if letter in given), "Z")
    # Java is lenient: the 32nd of January is the 1st of February.
    extra_years, month_index = divmod(month_number - 1, 12)
    start = datetime(year + extra_years, month_index + 1, 1, tzinfo=_zone(zone))
    days = number("D", 0) - 1 if "D" in given and "M" not in given else number("d", 1) - 1
    return (
        start
        + timedelta(
            days=days,
            hours=hour,
            minutes=number("m", 0),
            seconds=number("s", 0),
            milliseconds=number("S", 0),
        )
    ).astimezone(UTC)


def _zone(text: str) -> timezone:
    if text[0] not in "+-":
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)
