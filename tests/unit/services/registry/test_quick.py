from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.services.registry import quick
from barnabas.services.registry.quick import KeptAnswers, quick_answer, whole_answer

LATEST = b"/subjects/s/versions/latest"
ANY: list[tuple[bytes, bytes]] = [(b"accept", b"*/*")]


@pytest.fixture
def service() -> Any:
    return SimpleNamespace(state=SimpleNamespace(epoch=7), is_primary=True)


def test_an_answer_is_kept_until_the_next_record(service: Any) -> None:
    kept = KeptAnswers(service)
    kept.keep(LATEST, b"{}", 7)
    assert quick_answer({}, kept, LATEST, ANY) == whole_answer(b"{}")
    assert quick_answer({}, kept, b"/subjects/t/versions/latest", ANY) is None
    assert quick_answer({}, kept, LATEST, [(b"accept", b"text/html")]) is None
    service.state.epoch = 8
    assert quick_answer({}, kept, LATEST, ANY) is None


def test_who_is_not_the_primary_looks_at_the_log_first(service: Any) -> None:
    kept = KeptAnswers(service)
    kept.keep(LATEST, b"{}", 7)
    service.is_primary = False
    assert quick_answer({}, kept, LATEST, ANY) is None


def test_what_was_worked_out_before_a_change_is_not_kept(service: Any) -> None:
    kept = KeptAnswers(service)
    kept.keep(LATEST, b"{}", 6)
    assert quick_answer({}, kept, LATEST, ANY) is None


def test_kept_answers_take_bounded_memory(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "BYTES_MAX", 1_000)
    kept = KeptAnswers(service)
    for number in range(100):
        kept.keep(b"/subjects/%d" % number, b"x" * 100, 7)
    assert sum(quick_answer({}, kept, b"/subjects/%d" % number, ANY) is not None for number in range(100)) < 10
