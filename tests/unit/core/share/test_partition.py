"""A share partition: what each request makes of it, and what holds whatever is asked."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.core.share.batches import StateBatch, combine
from barnabas.core.share.partition import Acknowledgement, Acquired, RecordState, SharePartition, Taking
from barnabas.wire.errors import ErrorCode, KafkaError

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def acquire(
    state: SharePartition, member: str, first: int, last: int, most: int = 1000, **more: object
) -> list[Acquired]:
    limits = {"read_from": first, "most_in_flight": 2000, "locked_until_ms": 1000, "taking": Taking(most, 1000), **more}
    return state.acquire(member, first, last, **limits)  # type: ignore[arg-type]


def acknowledge(state: SharePartition, member: str, *acks: tuple[int, int, list[int]]) -> list[StateBatch]:
    given = [Acknowledgement(*each) for each in acks]
    return state.acknowledge(member, given, most_deliveries=3, locked_until_ms=2000)


def test_a_record_is_with_one_member_until_it_is_released() -> None:
    state = SharePartition(0)
    assert acquire(state, "anna", 0, 9) == [Acquired(0, 9, 1)]
    assert acquire(state, "bert", 0, 9) == []
    assert acknowledge(state, "anna", (3, 4, [RELEASE])) == [StateBatch(3, 4, RecordState.AVAILABLE, 1)]
    assert state.next_fetch_offset() == 3
    assert acquire(state, "bert", 0, 9) == [Acquired(3, 4, 2)]


def test_the_start_moves_over_what_is_done_with() -> None:
    state = SharePartition(0)
    acquire(state, "anna", 0, 9)
    acknowledge(state, "anna", (5, 9, [ACCEPT]))
    assert (state.start_offset, state.delivery_complete_count) == (0, 5)
    acknowledge(state, "anna", (0, 4, [ACCEPT, REJECT, ACCEPT, 0, ACCEPT]))
    assert (state.start_offset, state.in_flight, state.runs) == (10, 0, [])


def test_a_record_released_too_often_is_given_up() -> None:
    state = SharePartition(0)
    for deliveries in (1, 2, 3):
        assert acquire(state, "anna", 0, 0) == [Acquired(0, 0, deliveries)]
        acknowledge(state, "anna", (0, 0, [RELEASE]))
    assert acquire(state, "anna", 0, 0) == []
    assert state.start_offset == 1


def test_a_lock_runs_out_unless_it_is_renewed() -> None:
    state = SharePartition(0)
    acquire(state, "anna", 0, 1)
    acknowledge(state, "anna", (1, 1, [RENEW]))
    assert state.next_deadline_ms() == 1000
    assert state.expire(1000, most_deliveries=3) == [StateBatch(0, 0, RecordState.AVAILABLE, 1)]
    assert state.next_deadline_ms() == 2000


@pytest.mark.parametrize(
    ("member", "acks", "error"),
    [
        ("bert", [(0, 1, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),
        ("anna", [(0, 7, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ("anna", [(20, 30, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ("anna", [(0, 1, [ACCEPT]), (4, 9, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ("anna", [(0, 1, [7])], ErrorCode.INVALID_REQUEST),
        ("anna", [(0, 1, [])], ErrorCode.INVALID_REQUEST),
        ("anna", [(1, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ("anna", [(0, 2**62, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_was_not_acquired_cannot_be_acknowledged(
    member: str, acks: list[tuple[int, int, list[int]]], error: ErrorCode
) -> None:
    state = SharePartition(0)
    acquire(state, "anna", 0, 4)
    before = list(state.runs)
    with pytest.raises(KafkaError) as refused:
        acknowledge(state, member, *acks)
    assert refused.value.code is error
    assert list(state.runs) == before


def test_no_more_are_in_flight_than_allowed() -> None:
    state = SharePartition(0)
    assert acquire(state, "anna", 0, 99, most_in_flight=10) == [Acquired(0, 9, 1)]
    assert acquire(state, "bert", 10, 99, most_in_flight=10) == []
    acknowledge(state, "anna", (0, 4, [ACCEPT]))
    assert acquire(state, "bert", 10, 99, most_in_flight=10) == [Acquired(10, 14, 1)]


def test_exactly_as_many_as_asked_for() -> None:
    state = SharePartition(0)
    assert acquire(state, "anna", 0, 99, 3, exact=True) == [Acquired(0, 2, 1)]
    assert acquire(state, "bert", 0, 99, 3) == [Acquired(3, 99, 1)]


def test_gaps_of_the_log_are_passed() -> None:
    state = SharePartition(0)
    acquire(state, "anna", 5, 6, read_from=0)
    assert state.start_offset == 5
    acquire(state, "anna", 9, 9, read_from=7)
    acknowledge(state, "anna", (5, 6, [ACCEPT]))
    assert state.start_offset == 9


def test_what_the_log_has_not_to_give_is_passed_over() -> None:
    state = SharePartition(0)
    state.pass_over(0, 7)
    assert (state.start_offset, state.next_fetch_offset()) == (7, 7)
    acquire(state, "anna", 7, 8)
    state.pass_over(0, 5)
    state.pass_over(9, 12)
    assert (state.start_offset, state.next_fetch_offset()) == (7, 12)


def test_records_that_found_no_room_are_no_gap_of_the_log() -> None:
    state = SharePartition(0)
    assert acquire(state, "anna", 0, 9, most_in_flight=5) == [Acquired(0, 4, 1)]
    assert acquire(state, "anna", 10, 19, most_in_flight=5) == []
    acknowledge(state, "anna", (0, 4, [ACCEPT]))
    assert state.start_offset == state.next_fetch_offset() == 5


def test_the_whole_state_says_of_taken_records_what_was_written_before() -> None:
    state = SharePartition(0)
    acquire(state, "anna", 0, 9)
    acknowledge(state, "anna", (2, 3, [ACCEPT]), (6, 7, [RELEASE]), (8, 8, [REJECT]))
    acquire(state, "bert", 0, 9)
    assert state.to_persist() == [
        StateBatch(2, 3, RecordState.ACKNOWLEDGED, 1),
        StateBatch(6, 7, RecordState.AVAILABLE, 1),  # bert has them for the second time
        StateBatch(8, 8, RecordState.ARCHIVED, 1),
    ]


def test_later_batches_count() -> None:
    so_far = [StateBatch(0, 9, 0, 1), StateBatch(20, 29, 2, 1)]
    assert combine(so_far, [StateBatch(5, 24, 4, 2)], 3) == (
        StateBatch(3, 4, 0, 1),
        StateBatch(5, 24, 4, 2),
        StateBatch(25, 29, 2, 1),
    )
    assert combine([StateBatch(0, 1, 2, 1)], [StateBatch(2, 3, 2, 1)], -1) == (StateBatch(0, 3, 2, 1),)


@pytest.mark.parametrize("seed", range(60))
def test_each_record_is_delivered_until_it_is_done_with_and_never_to_two(seed: int) -> None:
    """Beside a plain table of offsets; at times the leader changes, and only what was persisted is left.

    At times a write does not arrive, and the whole state is written after others that did."""
    random = Random(seed)
    records, members, most_in_flight = 40, ["anna", "bert", "carl"], random.choice([7, 2000])
    state, persisted = SharePartition(0), (0, tuple[StateBatch, ...]())
    holder: dict[int, str] = {}
    done: dict[int, str] = {}
    now_ms, is_missing = 0, False

    def persist(changed: list[StateBatch]) -> None:
        nonlocal persisted, is_missing
        if random.random() < 0.1:
            is_missing = True
            return
        persisted = (state.start_offset, combine(persisted[1], changed, state.start_offset))

    def freed(changed: list[StateBatch]) -> None:
        for batch in changed:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                holder.pop(offset, None)
                if RecordState(batch.delivery_state).is_terminal:
                    assert offset not in done
                    done[offset] = "done"
        persist(changed)

    for _ in range(300):
        member = random.choice(members)
        match random.choices(["fetch", "acknowledge", "time", "leave", "fail over"], [40, 40, 10, 5, 3])[0]:
            case "fetch":
                first = state.next_fetch_offset()
                limits = {"most_in_flight": most_in_flight, "locked_until_ms": now_ms + 50}
                for _ in range(random.randint(1, 4)):  # batches that are read together
                    if first >= records:
                        break
                    last = min(records - 1, first + random.randint(0, 9))
                    for each in acquire(state, member, first, last, random.randint(1, 8), **limits):
                        for offset in range(each.first, each.last + 1):
                            assert offset not in holder, f"{offset} is with two members"
                            assert offset not in done, f"{offset} was done with"
                            holder[offset] = member
                    first = last + 1
            case "acknowledge":
                mine = sorted(offset for offset, name in holder.items() if name == member)
                for offset in random.sample(mine, min(len(mine), 5)):
                    freed(acknowledge(state, member, (offset, offset, [random.choice([ACCEPT, RELEASE, REJECT])])))
            case "time":
                now_ms += random.randint(1, 40)
                freed(state.expire(now_ms, most_deliveries=3))
            case "leave":
                freed(state.release(member, most_deliveries=3))
            case "fail over":
                while is_missing:
                    is_missing = False
                    persist(state.to_persist())
                state = SharePartition(*persisted)
                holder.clear()
        for run in state.runs:
            for offset in range(run.first, run.last + 1):
                assert (holder.get(offset) == run.member_id) is (run.state is RecordState.ACQUIRED) or not run.member_id
    while len(done) < records:
        first = state.next_fetch_offset()
        assert first < records or holder, "records are lost"
        if first < records:
            for each in acquire(state, "anna", first, records - 1, locked_until_ms=now_ms + 50):
                for offset in range(each.first, each.last + 1):
                    holder[offset] = "anna"
        now_ms += 100
        for offset in sorted(holder):
            freed(acknowledge(state, holder[offset], (offset, offset, [ACCEPT])))
    assert (state.start_offset, state.runs) == (records, [])
