from __future__ import annotations

import json

import pytest

from barnabas.services.registry.election import (
    DUPLICATE_URLS,
    Assignment,
    Identity,
    decode_assignment,
    decode_identity,
    elect,
)

A, B, C = Identity("a", 8081), Identity("b", 8081), Identity("c", 8081, eligible=False)


def test_the_eligible_member_with_the_smallest_url_is_the_primary() -> None:
    assert elect({"m1": C, "m2": B, "m3": A}) == Assignment(0, "m3", A)
    assert elect({"m1": C, "m2": B}) == Assignment(0, "m2", B)
    assert elect({"m1": C}) == Assignment(0, None, None)


def test_two_members_with_one_url_are_told() -> None:
    assert elect({"m1": A, "m2": A}).error == DUPLICATE_URLS


def test_the_bytes_are_those_of_confluents_registry() -> None:
    identity = {"version": 1, "host": "a", "port": 8081, "master_eligibility": True, "scheme": "http", "leader": False}
    assert json.loads(A.encode()) == identity
    assert decode_identity(b'{"version":1,"host":"a","port":8081,"master_eligibility":true,"scheme":"http"}') == A
    assignment = Assignment(0, "m3", A)
    assert json.loads(assignment.encode()) == {"version": 1, "error": 0, "master": "m3", "master_identity": identity}
    assert decode_assignment(assignment.encode()) == assignment
    assert decode_assignment(b'{"version":1,"error":0}') == Assignment(0, None, None)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"host":1,"port":2}'])
def test_what_is_no_identity_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_identity(data)
