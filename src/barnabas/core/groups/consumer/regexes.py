"""Subscriptions by regular expression: when they are resolved to topics, and what follows.

The topics of an expression are looked up beside the heartbeats, a few hundred names at a time, fewer if expressions are
large, for all expressions of a group at once: when a member brings a new one, when topics have been created since, and
after a while in any case. The result is a record. Expressions are matched in linear time (`core/patterns`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache

from barnabas.core.coordinator.decision import Decision
from barnabas.core.coordinator.records import CoordinatorRecord
from barnabas.core.coordinator.timers import Timers
from barnabas.core.groups.cluster import Cluster
from barnabas.core.groups.consumer.group import ConsumerGroup
from barnabas.core.groups.consumer.member import ConsumerMember
from barnabas.core.groups.consumer.records import epoch_record, regex_record, regex_tombstone
from barnabas.core.groups.modern import Count
from barnabas.core.groups.topic_hashes import group_hash
from barnabas.core.patterns import Pattern, PatternError
from barnabas.wire.errors import ErrorCode, KafkaError

# New topics are looked for at most this often in a group.
REFRESH_PAUSE_MS = 10_000
# What one turn does: so many names, and so many steps of programs over their characters, of some 10 ns each.
NAMES_AT_ONCE = 500
STEPS_AT_ONCE = 500_000
TURN_MS = 1

MayDescribe = Callable[[str], bool]


class RegexChange(Enum):
    NONE = 0
    CHANGED = 1  # its topics will be known later
    RESOLVED = 2  # its topics are known already


@lru_cache(maxsize=32)
def compiled(regex: str) -> Pattern:
    return Pattern(regex)


class Regexes:
    def __init__(
        self,
        find_group: Callable[[str], ConsumerGroup | None],
        timers: Timers,
        clock: Callable[[], int],
        image: Callable[[], Cluster],
        refresh_interval_ms: Callable[[str], int],
    ) -> None:
        self._find_group = find_group
        self._timers = timers
        self._clock = clock
        self._image = image
        self._refresh_interval_ms = refresh_interval_ms
        # As of which metadata topics were last created.
        self.new_topics_version = -1

    def update(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        may_describe: MayDescribe,
        records: list[CoordinatorRecord],
    ) -> RegexChange:
        old, new = member.regex, updated.regex
        change = RegexChange.NONE
        needs_topics = False
        if old != new:
            change = RegexChange.CHANGED
            if old and group.regexes.get(old) == 1:
                records.append(regex_tombstone(group.id, old))
            if new and not group.regexes.get(new):
                require_valid(new)
                needs_topics = True
            elif (new and new in group.resolved) or (old and not new):
                change = RegexChange.RESOLVED
        if needs_topics or len(group.regexes):
            self._resolve_soon(group, old, new, may_describe, needs_topics)
        return change

    def _resolve_soon(
        self, group: ConsumerGroup, old: str, new: str, may_describe: MayDescribe, needs_topics: bool
    ) -> None:
        key = ("regex", group.id)
        now_ms = self._clock()
        last = next(iter(group.resolved.values()), None)
        if self._timers.is_scheduled(key) or (last is not None and now_ms <= last.resolved_ms + REFRESH_PAUSE_MS):
            return
        counts = dict(group.regexes.items())
        if old:
            counts[old] = counts.get(old, 1) - 1
        if new:
            counts[new] = counts.get(new, 0) + 1
        wanted = [regex for regex, count in counts.items() if count > 0]
        needs_topics = needs_topics or len(wanted) != len(group.resolved)
        needs_topics = needs_topics or (last.version if last else 0) < self.new_topics_version
        if last is not None and now_ms > last.resolved_ms + self._refresh_interval_ms(group.id):
            needs_topics = True
        if needs_topics and wanted:
            resolution = _Resolution(group.id, wanted, self._image(), may_describe, now_ms)
            self._timers.schedule(key, 0, lambda: self._go_on(resolution))

    def _go_on(self, resolution: _Resolution) -> Decision[None] | None:
        if not resolution.look_further():
            self._timers.schedule(("regex", resolution.group_id), TURN_MS, lambda: self._go_on(resolution))
            return None
        group = self._find_group(resolution.group_id)
        return None if group is None else Decision(self._records(group, resolution), None)

    def _records(self, group: ConsumerGroup, resolution: _Resolution) -> list[CoordinatorRecord]:
        records = []
        topics = dict(group.topics.items())
        changed = False
        for regex, found in resolution.found.items():
            if not group.regexes.get(regex):
                continue
            known = group.resolved.get(regex)
            before = known.topics if known is not None else frozenset()
            if before != found:
                changed = True
                add_matches(topics, before, -1)
                add_matches(topics, found, 1)
            records.append(regex_record(group.id, regex, found, resolution.version, resolution.began_ms))
        metadata_hash = group_hash(topics, self._image())
        if changed or metadata_hash != group.epochs.metadata_hash:
            epoch = group.epochs.group + 1
            records.append(epoch_record(group.id, epoch, metadata_hash))
            group.refreshed(epoch)
        return records


class _Resolution:
    def __init__(
        self, group_id: str, regexes: list[str], image: Cluster, may_describe: MayDescribe, now_ms: int
    ) -> None:
        self.group_id = group_id
        self.version = image.offset
        self.began_ms = now_ms
        self.found: dict[str, set[str] | frozenset[str]] = {regex: set() for regex in regexes}
        self._may_describe = may_describe
        self._names = list(image.topics)
        self._patterns: list[tuple[Pattern, set[str]]] = []
        for regex in regexes:
            matches: set[str] = set()
            self.found[regex] = matches
            try:
                self._patterns.append((compiled(regex), matches))
            except PatternError:
                continue  # checked when it came; a record of another Kafka may hold what only that one understands

    def look_further(self) -> bool:
        """True when all names have been looked at."""
        steps_per_character = sum(pattern.size for pattern, _ in self._patterns)
        steps = 0
        while self._names and steps < STEPS_AT_ONCE:
            name = self._names.pop()
            steps += len(name) * steps_per_character + STEPS_AT_ONCE // NAMES_AT_ONCE
            for pattern, matches in self._patterns:
                if pattern.fullmatch(name) and self._may_describe(name):
                    matches.add(name)
        return not self._names


def add_matches(topics: dict[str, Count], names: set[str] | frozenset[str], by: int) -> None:
    for name in names:
        count = topics.get(name, Count())
        changed = count._replace(by_regex=count.by_regex + by)
        if changed.by_name > 0 or changed.by_regex > 0:
            topics[name] = changed
        else:
            topics.pop(name, None)


def require_valid(regex: str) -> None:
    try:
        compiled(regex)
    except PatternError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {error}",
        ) from error
