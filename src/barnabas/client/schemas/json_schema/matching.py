"""A greatest set of pairs in which nobody stands twice."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping


def matched(edges: Mapping[int, Mapping[int, object]]) -> dict[int, int]:
    """From the left side to the right, by augmenting paths."""
    taken: dict[int, int] = {}
    for left in edges:
        _augment(left, edges, taken, set())
    return {left: right for right, left in sorted(taken.items(), key=lambda pair: pair[1])}


def _augment(left: int, edges: Mapping[int, Mapping[int, object]], taken: dict[int, int], seen: set[int]) -> bool:
    for right in _unseen(edges[left], seen):
        seen.add(right)
        if right not in taken or _augment(taken[right], edges, taken, seen):
            taken[right] = left
            return True
    return False


def _unseen(candidates: Iterable[int], seen: Container[int]) -> Iterable[int]:
    return (each for each in candidates if each not in seen)
