from __future__ import annotations

import pyarrow as pa
from aiokafka.partitioner import murmur2 as murmur2_of_another_client
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipelines.spark.sink.murmur2 import murmur2, partitions_of


def test_known_hashes_of_the_java_client() -> None:
    keys = [
        b"21",
        b"foobar",
        b"a-little-bit-long-string",
        b"a-little-bit-longer-string",
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
        b"abc",
    ]
    expected = [-973932308, -790332482, -985981536, -1486304829, -58897971, 479470107]
    assert murmur2(pa.array(keys, pa.binary())).astype("int32").tolist() == expected


@given(st.lists(st.binary(max_size=40)))
def test_every_key_hashes_as_another_client_has_it(keys: list[bytes]) -> None:
    hashes = murmur2(pa.array(keys, pa.binary()))
    assert hashes.tolist() == [murmur2_of_another_client(key) & 0xFFFFFFFF for key in keys]


@given(st.lists(st.binary(max_size=9), min_size=1), st.integers(1, 50), st.data())
def test_a_slice_of_a_column_is_placed_as_the_same_keys_alone(
    keys: list[bytes], partitions: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(keys) - 1))
    whole = partitions_of(pa.array(keys, pa.binary()), partitions)
    part = partitions_of(pa.array(keys, pa.binary()).slice(start), partitions)
    assert part.tolist() == whole[start:].tolist()
    assert all(0 <= partition < partitions for partition in part.tolist())
