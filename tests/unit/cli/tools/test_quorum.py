"""What `barnabas quorum watch` says about what it sees."""

from __future__ import annotations

from itertools import pairwise

from barnabas.cli.tools.quorum import Look, Replica, explain, page, read
from barnabas.wire.messages.describe_quorum import ReplicaState, ResponsePartitionData

THREE = tuple(Replica(node_id, 100, 1000) for node_id in (1, 2, 3))


def test_the_first_look_says_who_leads_and_how_many_decide() -> None:
    assert explain(None, Look(1, 4, 90, THREE)) == ["Node 1 leads epoch 4; 2 of 3 voters decide."]


def test_an_election_is_told_as_it_happens() -> None:
    led, nobody, other = Look(1, 4, 90, THREE), Look(), Look(2, 5, 95, THREE)
    assert explain(led, nobody)[0].startswith("Node 1 is no longer heard of as the leader")
    assert explain(nobody, other) == ["Node 2 leads epoch 5."]
    assert explain(led, other) == ["Node 2 was elected and leads epoch 5: a majority voted for it."]
    assert explain(other, other) == []


def test_who_voted_is_told_if_the_leader_says_so() -> None:
    led, nobody, other = Look(1, 4, 90, THREE), Look(), Look(2, 5, 95, THREE)
    assert explain(led, other, (2, 3)) == ["Node 2 was elected and leads epoch 5: 2 and 3 voted for it."]
    assert explain(nobody, other, (1, 2, 3)) == ["Node 2 leads epoch 5: 1, 2 and 3 voted for it."]
    assert explain(led, Look(1, 5, 95, THREE[:1]), (1,))[0].endswith("leads epoch 5: 1 alone voted for it.")


def test_that_nobody_can_be_asked_is_told_once_and_not_taken_for_an_election() -> None:
    led, gone = Look(1, 4, 90, THREE), Look(problem="localhost:9092 cannot be reached.")
    assert explain(led, gone) == explain(None, gone) == ["Nobody answers: localhost:9092 cannot be reached."]
    assert explain(gone, gone) == []
    assert explain(gone, led) == ["Node 1 leads epoch 4."]


def test_changes_of_voters_say_how_many_decide_now() -> None:
    two = Look(1, 4, 90, THREE[:2])
    assert explain(two, Look(1, 4, 91, THREE)) == ["Node 3 has become a voter: 2 decide now."]
    assert explain(Look(1, 4, 91, THREE), two) == ["Node 3 is no voter any more: 2 decide now."]


def test_a_voter_that_has_not_asked_for_long_is_marked() -> None:
    voters = (Replica(1, 100, 9000), Replica(2, 98, 9900), Replica(3, 50, 1000))
    shown = page(Look(1, 4, 98, voters), [], 100, 10_000, colourful=False)
    assert [line.split() for line in shown[3:6]] == [
        ["1", "leader", "100", "0"],
        ["2", "voter", "98", "2", "100", "ms", "ago"],
        ["3", "voter", "50", "50", "9000", "ms", "ago", "silent"],
    ]


def test_a_long_sentence_goes_on_in_the_next_line() -> None:
    (sentence,) = explain(Look(1, 4, 90, THREE), Look())
    shown = page(Look(), [f"12:00:00  {sentence}"], 80, 10_000, colourful=False)
    told = shown[shown.index("") + 3 :]
    assert all(len(line) <= 80 for line in told)
    assert " ".join(" ".join(told).split()) == f"12:00:00 {sentence}"


def test_what_nobody_has_said_is_not_shown() -> None:
    assert page(Look(), [], 100, 10_000, colourful=False)[0] == "barnabas quorum watch   nobody leads"


def test_of_a_voter_that_the_leader_has_not_heard_of_nothing_is_known() -> None:
    shown = page(Look(1, 5, 98, (Replica(1, 100, 9000), Replica(2, -1, -1))), [], 100, 10_000, colourful=False)
    assert shown[4].split() == ["2", "voter", "?", "?", "never", "silent"]


def described(leader: int, epoch: int, **fetched_ms: int) -> Look:
    """As the leader says it; `n2=900` is what it last heard of node 2."""
    voters = [
        ReplicaState(replica_id=int(name[1:]), log_end_offset=100, last_fetch_timestamp=at, last_caught_up_timestamp=at)
        for name, at in fetched_ms.items()
    ]
    return read(
        ResponsePartitionData(
            partition_index=0, leader_id=leader, leader_epoch=epoch, high_watermark=90, current_voters=voters
        )
    )


def test_ages_go_by_the_leaders_clock_whatever_ours_says() -> None:
    """They are of another machine; with a clock three seconds ahead of it every voter looked silent."""
    look = described(1, 4, n1=50_000, n2=49_900, n3=47_500)
    shown = page(look, [], 100, look.at_ms, colourful=False)
    assert [line.split()[4:] for line in shown[4:6]] == [["100", "ms", "ago"], ["2500", "ms", "ago", "silent"]]


def test_a_voter_that_falls_silent_and_comes_back_is_told_of_once() -> None:
    looks = [
        described(1, 4, n1=50_000, n2=49_900, n3=49_900),
        described(1, 4, n1=51_500, n2=51_400, n3=49_990),
        described(1, 4, n1=52_500, n2=52_400, n3=49_990),
        described(1, 4, n1=53_000, n2=52_900, n3=49_990),
        described(1, 4, n1=53_500, n2=53_400, n3=53_490),
    ]
    told = [explain(before, now) for before, now in pairwise(looks)]
    silent = (
        "Node 3 has not asked for records for 2 s: it has died, hangs or is cut off. "
        "2 of 3 voters are there, 2 must be."
    )
    assert told == [[], [silent], [], ["Node 3 follows node 1 again."]]


def test_who_follows_a_new_leader_is_told_as_it_happens() -> None:
    led = described(1, 4, n1=50_000, n2=49_900, n3=49_900)
    elected = described(2, 5, n1=-1, n2=53_000, n3=-1)
    followed = described(2, 5, n1=-1, n2=53_500, n3=53_400)
    assert explain(led, elected) == ["Node 2 was elected and leads epoch 5: a majority voted for it."]
    assert explain(elected, followed) == ["Node 3 follows node 2."]


def test_voters_that_changed_while_nobody_led_are_told_of() -> None:
    nobody = Look(voters=THREE[:2])
    assert explain(nobody, Look(2, 5, 95, THREE)) == [
        "Node 2 leads epoch 5.",
        "Node 3 has become a voter: 2 decide now.",
    ]
