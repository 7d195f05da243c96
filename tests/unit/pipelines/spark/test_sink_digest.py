from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.spark.sink import digest as digest_module
from barnabas.pipelines.spark.sink.batches import Columns
from barnabas.pipelines.spark.sink.digest import digest, topic_number
from barnabas.pipelines.spark.sink.messages import Digest

Row = tuple[bytes | None, bytes | None, int, str]
cells = st.none() | st.binary(max_size=30)
rows = st.lists(st.tuples(cells, cells, st.integers(-1, 3), st.sampled_from(["a", "b", "sensors"])), max_size=30)


def digest_of(given_rows: list[Row]) -> Digest:
    columns = Columns(
        pa.array([row[0] for row in given_rows], pa.binary()),
        pa.array([row[1] for row in given_rows], pa.binary()),
        None,
    )
    topics = np.array([topic_number(row[3]) for row in given_rows], np.uint64)
    return digest(columns, topics, np.array([row[2] for row in given_rows], np.int64))


@given(rows, st.randoms(use_true_random=False), st.data())
def test_neither_order_nor_cuts_matter(given_rows: list[Row], shuffler: random.Random, data: st.DataObject) -> None:
    whole = digest_of(given_rows)
    shuffled = shuffler.sample(given_rows, len(given_rows))
    cut = data.draw(st.integers(0, len(given_rows)))
    assert digest_of(shuffled[:cut]) + digest_of(shuffled[cut:]) == whole
    assert whole.rows == len(given_rows)


@given(rows.filter(bool), st.data())
def test_any_other_row_gives_another_digest(given_rows: list[Row], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(given_rows) - 1))
    other = data.draw(
        st.tuples(cells, cells, st.integers(-1, 3), st.sampled_from(["a", "b"])).filter(
            lambda row: row != given_rows[at]
        )
    )
    assert digest_of([*given_rows[:at], other, *given_rows[at + 1 :]]) != digest_of(given_rows)


def test_bytes_that_move_between_key_and_value_are_seen() -> None:
    assert (
        len(
            {
                digest_of([row])
                for row in [
                    (b"ab", b"c", -1, "a"),
                    (b"a", b"bc", -1, "a"),
                    (b"", b"abc", -1, "a"),
                    (None, b"abc", -1, "a"),
                ]
            }
        )
        == 4
    )


def test_a_row_repeated_is_not_a_row_left_out() -> None:
    a, b = (b"k", b"one", -1, "a"), (b"k", b"two", -1, "a")
    assert len({digest_of(rows) for rows in ([a, b], [a, a], [b, b], [a], [])}) == 5


def test_large_columns_are_summed_in_chunks() -> None:
    many: list[Row] = [(b"key-%d" % number, bytes(number % 700), -1, "a") for number in range(5_000)]
    whole = digest_of(many)
    digest_module._tables.clear()
    parts = [digest_of(many[start : start + 977]) for start in range(0, 5_000, 977)]
    assert sum(parts, Digest()) == whole


@given(rows.filter(bool), st.data())
def test_rows_of_one_size_have_the_hashes_they_have_among_others(given_rows: list[Row], data: st.DataObject) -> None:
    """Such rows alone are summed in another way."""
    alike = data.draw(st.lists(st.tuples(st.binary(min_size=5, max_size=5), st.binary(min_size=9, max_size=9))))
    same: list[Row] = [(key, value, -1, "a") for key, value in alike]
    assert digest_of(same) + digest_of(given_rows) == digest_of(same + given_rows)
