"""Our authorizer decides as Kafka's StandardAuthorizer does, over random entries and questions.

All lines go through one Java process (`java/Authorizations.java`), as a filter. `BARNABAS_DECISIONS=1000000` asks more.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from barnabas.core.security.authorizer import Authorizer
from barnabas.core.security.model import Operation, PatternType, PermissionType, Resource, ResourceType
from barnabas.wire.records.metadata import AccessControlEntryRecord
from tests.support import reference

FILTER = Path(__file__).parent / "java" / "Authorizations.java"
DECISIONS = int(os.environ.get("BARNABAS_DECISIONS", "20000"))
QUESTIONS_PER_SET = 200
TYPES = [each for each in ResourceType if each > ResourceType.ANY]
OPERATIONS = [each for each in Operation if each > Operation.ANY]
USERS = ["anna", "bob", "CN=carl,O=plant", "*"]
HOSTS = ["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
NAMES = ["*", "a", "aa", "ab", "aab", "aabc", "b", "ba", "foo", "foobar", "foo.bar", "f", "fo", "*a", "hardcode"]


def some_types(random: Random) -> list[ResourceType]:
    return random.sample(TYPES, random.choice([1, 1, 2]))


def random_entry(random: Random, types: list[ResourceType], operations: list[Operation]) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        resource_type=random.choice(types),
        resource_name=random.choice(NAMES),
        pattern_type=random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        principal=f"User:{random.choice(USERS)}",
        host=random.choice(["*", "*", *HOSTS]),
        operation=random.choice(operations),
        permission_type=random.choices([PermissionType.ALLOW, PermissionType.DENY], [4, 1])[0],
    )


def test_every_decision_is_that_of_the_standard_authorizer() -> None:
    if reason := reference.available():
        pytest.skip(f"the reference is not available: {reason}")
    random = Random(20)
    lines: list[str] = []
    ours: list[tuple[str, str]] = []
    for number in range(DECISIONS // QUESTIONS_PER_SET):
        types = some_types(random)
        operations = random.sample(OPERATIONS, random.randint(1, 6))
        drawn = [random_entry(random, types, operations) for _ in range(random.choice([0, 1, 2, 5, 20, 60]))]
        entries = list({bytes(entry.encode(0)): entry for entry in drawn}.values())  # no entry is there twice
        super_users = random.choice([[], [], ["User:anna"], ["User:anna", "User:CN=carl,O=plant"]])
        lenient = random.random() < 0.3
        authorizer = Authorizer(entries, super_users=super_users, allow_if_no_acl=lenient)
        lines.append(f"new\t{';'.join(super_users)}\t{str(lenient).lower()}")
        for entry in entries:
            lines.append(
                f"acl\t{entry.resource_type:d}\t{entry.resource_name}\t{entry.pattern_type:d}\t{entry.principal}"
                f"\t{entry.host}\t{entry.operation:d}\t{entry.permission_type:d}"
            )
        lines.append("loaded")
        for _ in range(QUESTIONS_PER_SET):
            user, host = random.choice(USERS[:-1]), random.choice(HOSTS)
            operation = random.choice([*operations, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS])
            kind = random.choice(types)
            if random.random() < 0.2 and operation is not Operation.ALL:
                lines.append(f"any\t{user}\t{host}\t{operation:d}\t{kind:d}")
                allowed = authorizer.allows_any(f"User:{user}", host, operation, kind)
            else:
                name = random.choice(NAMES)
                lines.append(f"ask\t{user}\t{host}\t{operation:d}\t{kind:d}\t{name}")
                allowed = authorizer.allows(f"User:{user}", host, operation, Resource(kind, name))
            ours.append((f"set {number}: {lines[-1]}", "1" if allowed else "0"))
    done = reference.run_tool(str(FILTER), input="".join(f"{line}\n" for line in lines))
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()[-1]
    assert len(answers) == len(ours)
    assert set(answers) == {"0", "1"}
    wrong = [question for (question, bit), answer in zip(ours, answers, strict=True) if bit != answer]
    assert wrong == []
