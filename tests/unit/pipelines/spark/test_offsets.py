from __future__ import annotations

import pytest

from barnabas.pipelines.spark.offsets import IncompatibleCheckpoint, StreamOffset

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def test_an_offset_is_the_connectors_json_with_what_is_pinned_beside_it() -> None:
    offset = StreamOffset({B0: 7, A1: 2, A0: 1}, {"a": "id-a"}, {A1: 0})
    written = {"a": {"0": 1, "1": 2}, "b": {"0": 7}, "$ids": {"a": "id-a"}, "$first": {"a": {"1": 0}}}
    assert offset.to_json() == written
    assert StreamOffset.parse(written) == offset


def test_the_connectors_own_offset_is_taken() -> None:
    assert StreamOffset.parse({"a": {"0": 1}}) == StreamOffset({A0: 1})


def test_partitions_begin_where_the_last_batch_ended_and_new_ones_where_it_was_pinned() -> None:
    end = StreamOffset({A0: 9, A1: 5}, {"a": "id"}, {A1: 3})
    assert end.begin(StreamOffset({A0: 4}, {"a": "id"}), A0) == 4
    assert end.begin(StreamOffset({A0: 4}, {"a": "id"}), A1) == 3
    assert end.begin(StreamOffset.parse({"$unpinned": True}), A1) == 3
    assert end.begin(StreamOffset.parse({"$unpinned": True}), A0) is None


def test_the_offsets_of_a_topic_that_was_created_again_do_not_go_on() -> None:
    end = StreamOffset({A0: 9}, {"a": "new"}, {A0: 0})
    assert end.begin(StreamOffset({A0: 4}, {"a": "old"}), A0) == 0


def test_the_pinned_beginning_counts_only_for_the_batch_that_pinned_it() -> None:
    first = StreamOffset({A0: 9}, {"a": "id"}, {A0: 3})
    assert first.begin(first, A0) == 9


@pytest.mark.parametrize("foreign", [5, {"logOffset": 3}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"$ids": 3}])
def test_a_foreign_checkpoint_is_told_in_one_sentence(foreign: object) -> None:
    with pytest.raises(IncompatibleCheckpoint, match="is no offset of topics: it belongs to another query"):
        StreamOffset.parse(foreign)
