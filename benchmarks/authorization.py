"""How long a decision of access control takes with 10,000 entries: `python -m benchmarks.authorization`."""

from __future__ import annotations

import random
import time

from barnabas.core.security.authorizer import Authorizer
from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.wire.records.metadata import AccessControlEntryRecord

ENTRIES, TOPICS, USERS, DECISIONS = 10_000, 2_000, 100, 200_000


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
    authorizer = Authorizer(entries(source))
    asked = [
        (f"User:{source.randrange(USERS)}", Resource.topic(f"topic-{source.randrange(TOPICS)}"))
        for _ in range(DECISIONS)
    ]
    measure(authorizer, "each for the first time", list(dict.fromkeys(asked))[:40_000])
    measure(authorizer, "known ones", asked[:1000] * 200)


def measure(authorizer: Authorizer, name: str, asked: list[tuple[str, Resource]]) -> None:
    began = time.process_time()
    for principal, resource in asked:
        authorizer.allows(principal, "10.0.0.1", Operation.READ, resource)
    print(f"{name}: {(time.process_time() - began) / len(asked) * 1e6:.2f} us of CPU a decision")


if __name__ == "__main__":
    main()
