from __future__ import annotations

import pytest

from barnabas.node.storage.cleaning.records import Uncleanable, keys_of
from barnabas.wire.batch import HEADER_BYTES, Record, build_batch, read_header
from barnabas.wire.compression import Compression


@pytest.mark.parametrize("codec", list(Compression))
def test_keys_from_an_offset_on_and_who_has_no_value(codec: Compression) -> None:
    records = [
        Record(70, 5, b"before", b"1"),
        Record(71, 5, b"a", b"2"),
        Record(72, 5, None, b"3"),
        Record(73, 5, b"b", None),
        Record(74, 5, b"", b"", (("h", b"v"),)),
    ]
    batch = build_batch(records, compression=codec)
    assert keys_of(b"xxx" + batch, 3, 71) == ([(b"a", 71), (b"b", 73), (b"", 74)], [73])


@pytest.mark.parametrize("at", range(0, 40, 3))
def test_records_that_make_no_sense_cannot_be_cleaned(at: int) -> None:
    batch = build_batch([Record(offset, 5, b"key", b"value") for offset in range(4)])
    assert read_header(batch).records_count == 4
    batch[HEADER_BYTES + at :] = b"\xff" * (len(batch) - HEADER_BYTES - at)
    with pytest.raises(Uncleanable):
        keys_of(batch, 0, 0)
