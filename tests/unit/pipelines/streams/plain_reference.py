"""Windows and joins in plain Python, record by record: what topologies are compared with.

Records are (key, time, value) in the order in which they come.
"""

from __future__ import annotations

from typing import Any

from barnabas.streams import Windowed

Record = tuple[str, int, Any]
Table = dict[Any, Any]


def time_windows(given: list[Record], size: int, advance: int, grace: int) -> tuple[Table, Table, Table]:
    """Counts and sums by window, and the counts of those that are closed in the end."""
    counts: Table = {}
    sums: Table = {}
    now = -1
    for key, time, value in given:
        now = max(now, time)
        for start in range(0, time + 1, advance):
            if start <= time < start + size and start + size > now - grace:
                place = Windowed(key, start, start + size)
                counts[place] = counts.get(place, 0) + 1
                sums[place] = sums.get(place, 0) + value
    return counts, sums, {place: count for place, count in counts.items() if place.end_ms + grace <= now}


def sessions(given: list[Record], gap: int, grace: int) -> tuple[Table, Table]:
    """Counts by session, and the sums of those that are closed in the end."""
    found: Table = {}
    before = now = -1
    for key, time, value in given:
        before, now = now, max(now, time)
        near = [
            window
            for window in found
            if window.key == key
            and window.start_ms - gap <= time <= window.end_ms + gap
            and window.end_ms > before - grace - gap
        ]
        merged = Windowed(key, min([time, *(one.start_ms for one in near)]), max([time, *(one.end_ms for one in near)]))
        if merged.end_ms < now - grace - gap:
            continue
        swallowed = [found.pop(one) for one in near]
        found[merged] = 1 + sum(count for count, _ in swallowed), value + sum(held for _, held in swallowed)
    counts = {window: count for window, (count, _) in found.items()}
    return counts, {window: held for window, (_, held) in found.items() if window.end_ms < now - grace - gap}


def sliding_sums(given: list[Record], difference: int) -> Table:
    """Where nothing is too late."""
    found: Table = {}
    for key in {key for key, _, _ in given}:
        own = [(time, value) for name, time, value in given if name == key]
        for start in {max(0, time - difference) for time, _ in own} | {time + 1 for time, _ in own}:
            held = [value for time, value in own if start <= time <= start + difference]
            if held:
                found[Windowed(key, start, start + difference)] = sum(held)
    return found


def stream_pairs(lefts: list[Record], rights: list[Record], before: int, after: int, grace: int) -> tuple[Any, Any]:
    """Pairs of an inner join, and those an outer join shows of records without a partner. Values are all different."""
    pairs = [
        (key, [value, other])
        for key, time, value in lefts
        for name, at, other in rights
        if key == name and time - before <= at <= time + after
    ]
    met = {value for _, pair in pairs for value in pair}
    now = max((time for _, time, _ in [*lefts, *rights]), default=-1)
    lonely = [(key, [value, None]) for key, time, value in lefts if value not in met and time + after + grace < now]
    lonely += [(key, [None, value]) for key, time, value in rights if value not in met and time + before + grace < now]
    return pairs, lonely
