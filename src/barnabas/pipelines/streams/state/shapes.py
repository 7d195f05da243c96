"""What the entries of a store look like, as far as it matters for moving them to another partition (`moving`).

KEYS      a key, and anything; so are records of sliding windows: their numbers are compared within a key only
WINDOWS   (start, key), and anything
WAITING   a key, and a list of (time, number, value): records of a side of a join
LONELY    (time, side, number), and (key, value): those of them that have no partner yet
CLOCK     facts of the whole partition by name, as its stream time, and of processors by number
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.pipelines.streams.objects import Key, Value

KEYS, WINDOWS, WAITING, LONELY, CLOCK = "keys", "windows", "waiting", "lonely", "clock"
NUMBER = "number"  # of the next record of a join, in its clock
EARLIEST_COUNTS = ("swept", "oldest")  # of a clock; of all else in it the greatest is true of several partitions


def key_in(shape: str, key: Key, value: Value) -> Any:
    """The key whose partition the entry belongs to."""
    if shape == WINDOWS:
        return key[1]
    return value[0] if shape == LONELY else key


def renumbered(shape: str, key: Key, value: Value, partition: int, partitions: int) -> tuple[Any, Any]:
    """The entry with numbers that no entry of another one of the `partitions` has; their order is kept."""
    if shape == WAITING:
        return key, [(time, number * partitions + partition, one) for time, number, one in value]
    if shape == LONELY:
        time, side, number = key
        return (time, side, number * partitions + partition), value
    return key, value


def together(clocks: Iterable[dict[Any, Any]], partitions: int) -> dict[Any, Any]:
    """The clock of a partition whose keys come from the partitions of these clocks. Stream time is the latest, so no
    window is shown again that was shown; punctuators, which have numbers, are due at the earliest time."""
    found: dict[Any, Any] = {}
    for clock in clocks:
        for name, value in clock.items():
            value = value * partitions if name == NUMBER else value
            earliest = name in EARLIEST_COUNTS or isinstance(name, int)
            choose = min if earliest else max
            found[name] = choose(found[name], value) if name in found else value
    return found
