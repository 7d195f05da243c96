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
    found: dict[str, list[list[Any]]] = {}
    now = -1
    for key, time, value in given:
        now = max(now, time)
        near = [one for one in found.get(key, []) if one[0] - gap <= time <= one[1] + gap]
        merged = [min([time, *(one[0] for one in near)]), max([time, *(one[1] for one in near)]), 1, value]
        if merged[1] < now - grace - gap:
            continue
        merged[2] += sum(one[2] for one in near)
        merged[3] += sum(one[3] for one in near)
        found[key] = [one for one in found.get(key, []) if one not in near] + [merged]
    flat = [(Windowed(key, one[0], one[1]), one) for key, own in found.items() for one in own]
    counts = {window: one[2] for window, one in flat}
    return counts, {window: one[3] for window, one in flat if window.end_ms < now - grace - gap}


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
