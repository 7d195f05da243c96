"""The levels of Kafka's features: which came with which release, and what each needs.

For `kafka-features` and `kafka-storage`, whose questions about them need no cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.cli.errors import ToolFailed

METADATA_VERSION = "metadata.version"
FIRST_LEVEL = 7
RELEASES = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0", "4.4-IV0"),
)
LEVELS = {name: FIRST_LEVEL + at for at, name in enumerate(RELEASES)}
LATEST_STABLE = "4.3-IV0"
# The level of metadata.version from which on a new cluster has the feature, and its level then.
SINCE: Mapping[str, tuple[int, int]] = {
    "kraft.version": (21, 1),
    "transaction.version": (24, 2),
    "group.version": (22, 1),
    "eligible.leader.replicas.version": (26, 1),
    "share.version": (28, 1),
    "streams.version": (29, 1),
}
# What a level needs: (feature, level) -> (feature, level).
NEEDS = {("eligible.leader.replicas.version", 1): (METADATA_VERSION, 23)}


def release_name(level: int) -> str:
    at = level - FIRST_LEVEL
    return RELEASES[at] if 0 <= at < len(RELEASES) else f"UNKNOWN [{level}]"


def level_of(release: str, *, unstable: bool = True) -> int:
    """Of `4.0-IV3`, or of `4.0` for the last of its levels."""
    if release in LEVELS:
        return LEVELS[release]
    of_release = [level for name, level in LEVELS.items() if name.partition("-")[0] == release]
    if of_release:
        return of_release[-1]
    known = RELEASES if unstable else RELEASES[: RELEASES.index(LATEST_STABLE) + 1]
    raise ToolFailed(f"Unknown metadata.version '{release}'. Supported metadata.version are: {', '.join(known)}")


def levels_at(metadata_level: int) -> dict[str, int]:
    """Every feature's level in a new cluster of that level."""
    return {name: level if metadata_level >= since else 0 for name, (since, level) in SINCE.items()}


def mapping_lines(release: str | None) -> list[str]:
    level = level_of(release or LATEST_STABLE)
    lines = [f"{METADATA_VERSION}={level} ({release or LATEST_STABLE})"]
    return lines + [f"{name}={value}" for name, value in levels_at(level).items()]


def parse_feature(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise ToolFailed(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise ToolFailed(f"Can't parse feature=level string {text}: unable to parse {level} as a short.") from None


def dependency_lines(features: Iterable[str]) -> list[str]:
    lines = []
    for name, level in map(parse_feature, features):
        if name == METADATA_VERSION:
            if not FIRST_LEVEL <= level < FIRST_LEVEL + len(RELEASES):
                raise ToolFailed(f"Unknown metadata.version {level}")
            shown = f"{name}={level} ({release_name(level)})"
        elif name not in SINCE:
            raise ToolFailed(f"Unknown feature: {name}")
        elif not 0 <= level <= SINCE[name][1]:
            raise ToolFailed(f"No feature:{name} with feature level {level}")
        else:
            shown = f"{name}={level}"
        needed = NEEDS.get((name, level))
        if needed is None:
            lines.append(f"{shown} has no dependencies.")
        else:
            release = f" ({release_name(needed[1])})" if needed[0] == METADATA_VERSION else ""
            lines += [f"{shown} requires:", f"    {needed[0]}={needed[1]}{release}"]
    return lines
