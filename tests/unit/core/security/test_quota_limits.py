from __future__ import annotations

import itertools

from barnabas.core.security.quota_limits import PRODUCE, REQUEST, Entity, Limit, QuotaLimits

# The most special one first, with who shares it.
ORDER: list[tuple[Entity, tuple[str | None, str | None]]] = [
    ((("client-id", "app"), ("user", "anna")), ("anna", "app")),
    ((("client-id", None), ("user", "anna")), ("anna", "app")),
    ((("user", "anna"),), ("anna", None)),
    ((("client-id", "app"), ("user", None)), ("anna", "app")),
    ((("client-id", None), ("user", None)), ("anna", "app")),
    ((("user", None),), ("anna", None)),
    ((("client-id", "app"),), (None, "app")),
    ((("client-id", None),), (None, "app")),
]


def test_the_most_special_limit_holds() -> None:
    for count in range(1, len(ORDER) + 1):
        for chosen in itertools.combinations(range(len(ORDER)), count):
            limits = QuotaLimits({ORDER[index][0]: {PRODUCE: float(index + 1)} for index in chosen})
            assert limits.of(PRODUCE, "anna", "app") == Limit(chosen[0] + 1.0, ORDER[chosen[0]][1])
            assert limits.of(REQUEST, "anna", "app") is None


def test_a_limit_of_another_kind_does_not_hide_a_more_general_one() -> None:
    limits = QuotaLimits({(("user", "anna"),): {REQUEST: 5.0}, (("client-id", "app"),): {PRODUCE: 7.0}})
    assert limits.of(PRODUCE, "anna", "app") == Limit(7.0, (None, "app"))


def test_others_have_no_limit() -> None:
    limits = QuotaLimits({(("user", "anna"),): {PRODUCE: 5.0}})
    assert limits.of(PRODUCE, "bob", "app") is None
    assert limits.holds_for_clients
    assert not limits.holds_for_addresses


def test_addresses_have_a_default_too() -> None:
    limits = QuotaLimits(
        {
            (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
            (("ip", None),): {"connection_creation_rate": 9.0},
        }
    )
    assert (limits.of_address("10.0.0.1"), limits.of_address("10.0.0.2")) == (5.0, 9.0)
    assert not limits.holds_for_clients
