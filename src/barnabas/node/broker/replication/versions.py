"""In which versions brokers talk to each other: replica fetchers do not ask, the metadata version decides."""

from __future__ import annotations

FETCH = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14), (0, 13))
LIST_OFFSETS = ((29, 11), (25, 10), (21, 9), (9, 8), (0, 7))


def fetch_version(metadata_version: int) -> int:
    return _version(FETCH, metadata_version)


def list_offsets_version(metadata_version: int) -> int:
    return _version(LIST_OFFSETS, metadata_version)


def _version(since: tuple[tuple[int, int], ...], level: int) -> int:
    return next(version for first_level, version in since if level >= first_level)
