"""The quick way of Protobuf's messages gives what the usual way gives, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.serdes import Schema, SerdeError, codec_of
from barnabas.client.serdes.protobuf import ProtobufCodec
from barnabas.client.serdes.protobuf_values import fill, plain

TRIP = """syntax = "proto3";
package taxi;
import "google/protobuf/timestamp.proto";
message Trip {
  int64 id = 1; string plate = 2; optional double tip = 3; repeated string tags = 4; Place start = 5;
  map<string, Place> stops = 6; repeated Place past = 7; Kind kind = 8; repeated Kind kinds = 9;
  oneof paid { int32 cents = 10; Place at = 11; }
  bytes raw = 12; string self = 13; Trip next = 14; map<int32, Kind> by_number = 15;
}
message Place { double lat = 1; repeated double path = 2; }
message Timed { google.protobuf.Timestamp at = 1; Trip trip = 2; }
enum Kind { SHORT = 0; LONG = 1; }"""


@pytest.fixture(scope="module")
def codec() -> ProtobufCodec:
    codec = codec_of(Schema(TRIP, "PROTOBUF"))
    assert isinstance(codec, ProtobufCodec)
    return codec


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"id": 1, "plate": "B", "self": "x", "raw": b"\0"},
        {"tip": None, "start": None, "tags": None, "kind": None},
        {"tip": 0.0, "start": {}, "past": [{}, {"lat": 1}], "stops": {"a": {}, "b": {"path": [1, 2]}}},
        {"tags": ("a", "b"), "kind": "LONG", "kinds": ["LONG", 0, 7], "by_number": {1: 1, 2: 9}},
        {"cents": 5, "at": {}},
        {"next": {"next": {"id": 3, "tags": ["deep"]}}},
    ],
)
def test_what_is_written_quickly_is_what_is_written(codec: ProtobufCodec, value: dict[str, Any]) -> None:
    slow = codec._class()
    fill(slow, value, "")
    assert codec._layout is not None
    assert codec._layout.suits(value)
    assert codec._filled(value) == slow
    assert codec.decode(codec.encode(value)) == plain(slow)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"tags": "abc"}, "tags should be a list, not str."),
        ({"tags": {"a": 1}}, "tags should be a list, not dict."),
        ({"tags": iter(["a"])}, "tags should be a list, not list_iterator."),
        ({"past": {"lat": 1}}, "past should be a list, not dict."),
        ({"next": {"start": {"path": "12"}}}, "next.start.path should be a list, not str."),
        ({"stops": {"a": {"path": "12"}}}, "stops.a.path should be a list, not str."),
        ({"stops": [1]}, "stops should be a dict, not list."),
        ({"stops": {"a": None}}, "stops.a should be a dict for taxi.Place, not NoneType."),
        ({"past": [None]}, r"past\[0\] should be a dict for taxi.Place, not NoneType."),
        ({"start": 5}, "start should be a dict for taxi.Place, not int."),
        ({"kind": "NONE"}, "kind: taxi.Kind has no value NONE."),
        ({"nope": 1}, "taxi.Trip has no field nope."),
        ({"next": {"nope": 1}}, "taxi.Trip has no field nope."),
        ({"id": "5"}, "id does not fit taxi.Trip.id: "),
        ({"id": 1 << 70}, "id does not fit taxi.Trip.id: "),
    ],
)
def test_what_does_not_fit_is_told_by_its_path(codec: ProtobufCodec, value: dict[str, Any], said: str) -> None:
    with pytest.raises(SerdeError, match=said):
        codec.encode(value)


def test_well_known_types_take_the_usual_way() -> None:
    codec = codec_of(Schema(TRIP, "PROTOBUF"), message="Timed")
    assert isinstance(codec, ProtobufCodec)
    assert codec._layout is not None
    assert not codec._layout.suits({"trip": {"id": 1}})
    read = codec.decode(codec.encode({"at": {"seconds": 5}, "trip": {"tags": ["a"]}}))
    assert (read["at"].second, read["trip"]["tags"]) == (5, ["a"])


def test_a_message_in_a_message_a_thousand_times_over() -> None:
    def chain(length: int) -> Schema:
        messages = "".join(f"message A{at} {{ A{at + 1} next = 1; }}" for at in range(length))
        return Schema(f'syntax = "proto3"; {messages} message A{length} {{ int32 x = 1; }}', "PROTOBUF")

    codec = codec_of(chain(200))
    assert codec.decode(codec.encode({"next": {"next": {}}})) == {"next": {"next": {}}}
    with pytest.raises(SerdeError, match="nested too deeply"):
        codec_of(chain(2_000))
