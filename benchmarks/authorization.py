"""How long a decision of access control takes with 10,000 entries: `python -m benchmarks.authorization`.

The garbage collector is set as in a node. Of five runs the quickest counts.
"""

from __future__ import annotations

import gc
import random
import time

from barnabas.cli.nodes.serve import GC_THRESHOLDS
from barnabas.core.security.authorizer import Authorizer
from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.wire.records.metadata import AccessControlEntryRecord

ENTRIES, TOPICS, USERS, DECISIONS, ROUNDS = 10_000, 2_000, 100, 200_000, 5


def entries(source: random.Random) -> list[AccessControlEntryRecord]:
    return [
        AccessControlEntryRecord(
            resource_type=ResourceType.TOPIC,
            resource_name=f"topic-{source.randrange(TOPICS)}"[: source.choice((None, None, None, 7, 8))],
            pattern_type=source.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
            principal=f"User:{source.randrange(USERS)}",
            host="*",
            operation=source.choice((Operation.READ, Operation.WRITE, Operation.DESCRIBE)),
            permission_type=source.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
        )
        for _ in range(ENTRIES)
    ]


def main() -> None:
    source = random.Random(1)
    listed = entries(source)
    asked = [
        (f"User:{source.randrange(USERS)}", Resource.topic(f"topic-{source.randrange(TOPICS)}"))
        for _ in range(DECISIONS)
    ]
    distinct = list(dict.fromkeys(asked))[:40_000]
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    first, known = [], []
    for _ in range(ROUNDS):
        authorizer = Authorizer(listed)
        first.append(measure(authorizer, distinct))
        known.append(measure(authorizer, distinct))
    print(f"each for the first time: {min(first):.2f} us of CPU a decision (the slowest round: {max(first):.2f})")
    print(f"known ones: {min(known):.2f} us of CPU a decision")


def measure(authorizer: Authorizer, asked: list[tuple[str, Resource]]) -> float:
    began = time.process_time()
    for principal, resource in asked:
        authorizer.allows(principal, "10.0.0.1", Operation.READ, resource)
    return (time.process_time() - began) / len(asked) * 1e6


if __name__ == "__main__":
    main()
