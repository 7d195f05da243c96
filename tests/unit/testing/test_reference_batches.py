import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from tests.support.reference_batches import crafted_batch, varint


def test_a_crafted_batch_is_read_by_another_implementation() -> None:
    batch = DefaultRecordBatch(crafted_batch([(b"a", b"b"), (None, b"c"), (b"d", None)], base_timestamp=5))
    assert batch.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in batch] == [
        (0, 5, b"a", b"b"),
        (1, 6, None, b"c"),
        (2, 7, b"d", None),
    ]


def test_what_is_given_replaces_the_truth() -> None:
    assert not DefaultRecordBatch(crafted_batch(crc=1)).validate_crc()
    assert DefaultRecordBatch(crafted_batch(producer_id=7, producer_epoch=2, base_sequence=9)).validate_crc()


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (-1, b"\1"), (63, b"\x7e"), (64, b"\x80\1"), (-65, b"\x81\1")]
)
def test_varints_are_zigzag(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded
