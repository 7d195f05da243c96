"""Who of a group reads what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.assignors import (
    ASSIGNORS,
    Member,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from barnabas.client.errors import UnreadableAnswer


def member(name: str, *topics: str, owned: tuple[tuple[str, int], ...] = (), generation: int = 1) -> Member:
    return Member(name, frozenset(topics or ("t",)), owned, generation)


def run(topic: str, first: int, last: int) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(first, last)]


def test_range_gives_runs_of_each_topic_and_the_first_members_one_more() -> None:
    members = [member("b", "t", "u"), member("a", "t", "u"), member("c", "t")]
    assert assign_range(members, {"t": 7, "u": 3}) == {
        "a": run("t", 0, 3) + run("u", 0, 2),
        "b": run("t", 3, 5) + run("u", 2, 3),
        "c": run("t", 5, 7),
    }


def test_static_members_come_first_by_their_own_names() -> None:
    members = [member("a"), member("z")._replace(instance_id="one"), member("b")._replace(instance_id="two")]
    assert assign_range(members, {"t": 3}) == {"z": [("t", 0)], "b": [("t", 1)], "a": [("t", 2)]}


def test_round_robin_gives_one_after_the_other_over_all_topics() -> None:
    members = [member("a", "t", "u"), member("b", "u")]
    assert assign_round_robin(members, {"t": 2, "u": 3, "nobody": 2}) == {
        "a": [("t", 0), ("t", 1), ("u", 1)],
        "b": [("u", 0), ("u", 2)],
    }


def test_sticky_moves_no_more_than_it_must() -> None:
    a = member("a", owned=tuple(run("t", 0, 4)))
    b = member("b", owned=tuple(run("t", 4, 8)))
    assert assign_sticky([a, b], {"t": 8}) == {"a": run("t", 0, 4), "b": run("t", 4, 8)}
    with_c = assign_sticky([a, b, member("c")], {"t": 8})
    assert sorted(map(len, with_c.values())) == [2, 3, 3]
    assert set(with_c["a"]) <= set(a.owned)
    assert set(with_c["b"]) <= set(b.owned)


def test_a_partition_that_moves_is_first_only_taken_away() -> None:
    a = member("a", owned=(("t", 0), ("t", 1)))
    b = member("b", generation=-1)
    assert assign_cooperative_sticky([a, b], {"t": 2}) == {"a": [("t", 0)], "b": []}
    kept = a._replace(owned=(("t", 0),))
    assert assign_cooperative_sticky([kept, b], {"t": 2}) == {"a": [("t", 0)], "b": [("t", 1)]}


def test_of_two_that_claim_a_partition_the_later_generation_counts() -> None:
    old, new = member("a", owned=(("t", 0),), generation=3), member("b", owned=(("t", 0),), generation=4)
    assert assign_sticky([old, new], {"t": 1}) == {"a": [], "b": [("t", 0)]}


def test_what_is_owned_and_not_there_any_more_is_forgotten() -> None:
    gone = member("a", owned=(("t", 9), ("deleted", 0)))
    assert assign_cooperative_sticky([gone], {"t": 2}) == {"a": run("t", 0, 2)}


TOPICS = ("t", "u", "v")


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[Member], dict[str, int]]:
    partitions = {topic: draw(st.integers(0, 6)) for topic in TOPICS}
    everything = [(topic, index) for topic in TOPICS for index in range(7)]
    members = [
        Member(
            f"m{number}",
            frozenset(draw(st.sets(st.sampled_from(TOPICS)))),
            tuple(draw(st.lists(st.sampled_from(everything), unique=True, max_size=6))),
            draw(st.integers(-1, 2)),
        )
        for number in range(draw(st.integers(1, 5)))
    ]
    return members, partitions


@pytest.mark.parametrize("name", [*ASSIGNORS, "sticky"])
@given(group=groups())
def test_every_partition_has_at_most_one_reader_who_wants_it(
    name: str, group: tuple[list[Member], dict[str, int]]
) -> None:
    members, partitions = group
    given_to = (assign_sticky if name == "sticky" else ASSIGNORS[name])(members, partitions)
    wanted = {each.id: each.topics for each in members}
    assigned = [partition for given in given_to.values() for partition in given]
    assert len(assigned) == len(set(assigned))
    assert all(
        topic in wanted[who] and index < partitions[topic] for who, given in given_to.items() for topic, index in given
    )
    if name != "cooperative-sticky":  # which leaves what moves to the rebalance that follows
        readable = {topic for each in members for topic in each.topics}
        assert len(assigned) == sum(partitions[topic] for topic in readable)


@given(group=groups())
def test_cooperative_rebalances_come_to_rest_with_everything_assigned(
    group: tuple[list[Member], dict[str, int]],
) -> None:
    members, partitions = group
    for generation in range(3, 20):
        given_to = assign_cooperative_sticky(members, partitions)
        after = [
            each._replace(owned=tuple(given_to[each.id]), generation=generation, topics=each.topics) for each in members
        ]
        settled = all(set(each.owned) <= set(given_to[each.id]) for each in members)
        members = after
        if settled:
            break
    else:
        pytest.fail("it never came to rest")
    readable = {topic for each in members for topic in each.topics}
    assert sum(len(each.owned) for each in members) == sum(partitions[topic] for topic in readable)


def test_members_understand_each_other() -> None:
    said = encode_subscription(["u", "t"], [("t", 1), ("t", 0)], 5)
    assert decode_subscription("m", "static", said) == Member(
        "m", frozenset({"t", "u"}), (("t", 0), ("t", 1)), 5, "static"
    )
    assert decode_assignment(encode_assignment([("t", 1), ("u", 0)])) == [("t", 1), ("u", 0)]
    assert decode_assignment(b"") == []


def test_older_and_newer_members_are_understood() -> None:
    version_0 = b"\0\0" + b"\0\0\0\x01\0\x01t" + b"\xff\xff\xff\xff"
    assert decode_subscription("m", None, version_0) == Member("m", frozenset({"t"}))
    version_1 = b"\0\x01" + b"\0\0\0\x01\0\x01t" + b"\0\0\0\x04\0\0\0\x07" + b"\0\0\0\0"
    assert decode_subscription("m", None, version_1).generation == 7
    newer = b"\0\x09" + encode_subscription(["t"], [], 5)[2:] + b"more"
    assert decode_subscription("m", None, newer).generation == 5


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x03\0\0\0\x09"])
def test_a_member_that_cannot_be_understood_is_named(data: bytes) -> None:
    with pytest.raises(UnreadableAnswer, match=r"^What member m of the group wants cannot be read"):
        decode_subscription("m", None, data)
    if data:
        with pytest.raises(UnreadableAnswer, match="leader assigned cannot be read"):
            decode_assignment(data)
