from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2

from barnabas.client.schemas import InvalidSchema, ResolvedReference, parse_schema
from barnabas.client.schemas.protobuf.diff import differences
from barnabas.client.schemas.protobuf.schema import ProtobufSchema

ORDER = """
// A comment that is not kept.
syntax = 'proto3';
package shop.v1;

import "google/protobuf/timestamp.proto";
option java_package = "shop";

/* enums come last */
enum State { UNKNOWN = 0; OPEN = 1 [deprecated = true]; }
message Order {
  reserved 4, 8 to 10, 20 to max;
  reserved "old";
  message Line { string sku = 1; optional int32 count = 2 [json_name = "n"]; }
  repeated Line lines = 2;
  string id = 1; map<string, Line> by_name = 3;
  google.protobuf.Timestamp at = 5;
  oneof pay { string card = 6; bool cash = 7; }
  State state = 11;
}
service Orders { rpc Get (Order) returns (stream Order); }
"""
PRINTED = """syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";

option java_package = "shop";

message Order {
  reserved 4, 8 to 10, 20 to max;
  reserved "old";

  repeated Line lines = 2;
  string id = 1;
  map<string, Line> by_name = 3;
  google.protobuf.Timestamp at = 5;
  State state = 11;

  oneof pay {
    string card = 6;
    bool cash = 7;
  }

  message Line {
    string sku = 1;
    optional int32 count = 2 [json_name = "n"];
  }
}
enum State {
  UNKNOWN = 0;
  OPEN = 1 [deprecated = true];
}

service Orders {
  rpc Get (Order) returns (stream Order);
}
"""


def test_a_file_is_printed_without_comments_and_in_order() -> None:
    assert ProtobufSchema(ORDER).canonical == PRINTED
    assert ProtobufSchema(PRINTED).canonical == PRINTED


def test_the_normal_form_names_types_in_full_and_orders_fields() -> None:
    text = ProtobufSchema(ORDER).normalized().canonical
    assert "  string id = 1;\n  repeated .shop.v1.Order.Line lines = 2;" in text
    assert "map<string, .shop.v1.Order.Line> by_name = 3;" in text
    assert 'reserved 4;\n  reserved 8 to 10;\n  reserved 20 to max;\n  reserved "old";' in text
    assert ProtobufSchema(text).normalized().canonical == text


def test_the_descriptor_is_one_that_protobuf_takes() -> None:
    data = base64.b64decode(ProtobufSchema(ORDER).formatted("serialized"))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(data)
    order = pool.FindMessageTypeByName("shop.v1.Order")
    assert [(each.name, each.number) for each in order.fields][:3] == [("lines", 2), ("id", 1), ("by_name", 3)]
    assert order.fields_by_name["by_name"].message_type.GetOptions().map_entry
    assert order.fields_by_name["at"].message_type.full_name == "google.protobuf.Timestamp"
    assert order.oneofs_by_name["pay"].fields[1].name == "cash"
    assert order.nested_types_by_name["Line"].fields_by_name["count"].has_presence
    assert pool.FindEnumTypeByName("shop.v1.State").values_by_name["OPEN"].GetOptions().deprecated


def test_a_descriptor_is_taken_for_a_schema() -> None:
    file = descriptor_pb2.FileDescriptorProto()
    file.ParseFromString(base64.b64decode(ProtobufSchema(ORDER).formatted("serialized")))
    again = ProtobufSchema(base64.b64encode(file.SerializeToString()).decode())
    assert again.normalized().canonical == ProtobufSchema(ORDER).normalized().canonical
    assert ProtobufSchema(again.canonical).canonical == again.canonical


def test_references_are_imported_and_names_are_found_in_them() -> None:
    used = ResolvedReference(
        "shop/customer.proto", 'syntax = "proto3"; package shop; message Customer { int64 id = 1; }'
    )
    text = 'syntax = "proto3"; package shop.v1; import "shop/customer.proto"; message Order { Customer by = 1; }'
    assert ".shop.Customer by = 1" in ProtobufSchema(text, [used]).normalized().canonical
    with pytest.raises(InvalidSchema, match="Could not resolve type: Customer"):
        ProtobufSchema(text)


def found(old: str, new: str) -> list[str]:
    before, after = (ProtobufSchema(f'syntax = "proto3"; {each}') for each in (old, new))
    changes = differences(before.file, before.types, after.file, after.types)
    return [f"{each.kind} {each.path}" for each in changes if not each.compatible]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("message A { int32 a = 1; }", "message A { int64 renamed = 1; string b = 2; }", []),
        ("message A { int32 a = 1; }", "message A { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED #/A/1"]),
        ("message A { int32 a = 1; }", "message A { repeated int32 a = 1; }", []),
        (
            "message A { optional int32 a = 1; }",
            "message A { repeated int32 a = 1; }",
            ["FIELD_NUMERIC_LABEL_CHANGED #/A/1"],
        ),
        ("message A {} message B {}", "message A {}", ["MESSAGE_REMOVED #/B"]),
        (
            "message A { B b = 1; } message B {}",
            "message A { string b = 1; } message B {}",
            ["FIELD_KIND_CHANGED #/A/1"],
        ),
        ("package x; message A {}", "package y; message A {}", ["PACKAGE_CHANGED #/"]),
        (
            "message A { oneof o { int32 a = 1; int32 b = 2; } }",
            "message A { oneof o { int32 a = 1; } }",
            ["ONEOF_FIELD_REMOVED #/A/o/2"],
        ),
        (
            "message A { int32 a = 1; int32 b = 2; }",
            "message A { oneof o { int32 a = 1; int32 b = 2; } }",
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o"],
        ),
        (
            "message A { map<string, int32> m = 1; }",
            "message A { map<string, string> m = 1; }",
            ["FIELD_SCALAR_KIND_CHANGED #/A/1"],
        ),
        ("enum E { X = 0; } message A { E e = 1; }", "message A { int32 e = 1; }", []),
    ],
)
def test_what_a_change_means(old: str, new: str, expected: list[str]) -> None:
    assert found(old, new) == expected


def test_proto2_and_editions() -> None:
    old = 'syntax = "proto2"; message A { required int32 a = 1; optional group G = 2 { optional int32 x = 1; } '
    old += "extensions 100 to 199; } extend A { optional string note = 100 [default = 'x\\n']; }"
    schema = ProtobufSchema(old)
    assert "  required int32 a = 1;" in schema.canonical
    assert '  optional string note = 100 [default = "x\\n"];' in schema.canonical
    assert ProtobufSchema(schema.canonical).canonical == schema.canonical
    new = ProtobufSchema('syntax = "proto2"; message A { required int32 a = 1; required int32 b = 3; }')
    assert new.unreadable(schema, "new", "old") == [
        '{errorType:"REQUIRED_FIELD_ADDED", description:"A required field  at path \'#/A/3\' in the new schema is '
        'missing in the old schema"}'
    ]
    edition = ProtobufSchema('edition = "2023"; message A { int32 a = 1 [features.field_presence = EXPLICIT]; }')
    assert edition.canonical.startswith('edition = "2023";\n')
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(edition.formatted("serialized")))
    assert (file.syntax, file.edition) == ("editions", descriptor_pb2.EDITION_2023)


@pytest.mark.parametrize(
    "text",
    [
        "message",
        "message A {",
        "message A { int32 a = 1 }",
        "message A { int32 a = x; }",
        "message A { int32 a = 1; int32 b = 1; }",
        "message A { int32 a = 0; }",
        "message A { Missing a = 1; }",
        'syntax = "proto4";',
        'message A { string s = 1 [default = "open',
        "\x00",
        "{}",
        'syntax = "proto3"; message A {} message A {}',
        'syntax = "proto3"; message A { enum B { C = 0; } message B {} }',
        'syntax = "proto3"; message A { required int32 a = 1; }',
        'syntax = "proto3"; message A { map<float, int32> m = 1; }',
        'syntax = "proto3"; message B {} message A { map<B, int32> m = 1; }',
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema, match="Invalid schema of type PROTOBUF, details: "):
        parse_schema("PROTOBUF", text)


@pytest.mark.parametrize(
    "text",
    [
        'syntax = "proto3"; message A { int32 a = 1; int32 a = 2; }',
        'syntax = "proto3"; message A { int32 a = 1; oneof b { int32 a = 2; } }',
        'syntax = "proto3"; message A { int32 b = 1; oneof b { int32 a = 2; } }',
        'syntax = "proto3"; message A { message B { int32 a = 1; string a = 2; } }',
        'syntax = "proto3"; message A { message b {} int32 b = 1; }',
    ],
)
def test_fields_are_checked_where_somebody_asks_for_it(text: str) -> None:
    schema = ProtobufSchema(text)
    with pytest.raises(InvalidSchema, match="Invalid protobuf schema definition: "):
        schema.check_fields()


def test_a_type_of_a_reference_that_is_not_imported_fails_the_check() -> None:
    other = ResolvedReference("o.proto", 'syntax = "proto3"; package a; message B { int32 b = 1; }')
    passes_on = ResolvedReference("p.proto", 'syntax = "proto3"; package a; import public "o.proto";')
    text = 'syntax = "proto3"; package a; {} message A {{ map<string, B> m = 1; }}'
    with pytest.raises(InvalidSchema):
        ProtobufSchema(text.format(""), [other]).check_fields()
    ProtobufSchema(text.format('import "o.proto";'), [other]).check_fields()
    ProtobufSchema(text.format('import "p.proto";'), [other, passes_on]).check_fields()


def test_fields_of_a_sound_file_pass_the_check() -> None:
    other = ResolvedReference("other.proto", 'syntax = "proto3"; package o; message B { int32 b = 1; }')
    text = """syntax = "proto3"; import "other.proto"; import "google/protobuf/timestamp.proto";
    import "confluent/meta.proto"; message A { o.B b = 1; google.protobuf.Timestamp t = 2;
    map<string, o.B> m = 3; oneof c { string d = 4 [(confluent.field_meta).doc = "x"]; } optional int32 e = 5; }"""
    ProtobufSchema(text, [other]).check_fields()
    ProtobufSchema('syntax = "proto2"; message A { required int32 a = 1; map<bool, bytes> m = 2; }').check_fields()


def test_depth_without_end_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="nested too deeply"):
        parse_schema("PROTOBUF", "message A {" * 100_000)


TAGGED = """syntax = "proto3";
import "confluent/meta.proto";
message User {
  option (confluent.message_meta).doc = "who";
  string name = 1 [(confluent.field_meta).tags = "PII", (confluent.field_meta).tags = "PUBLIC"];
  string mail = 2 [(.confluent.field_meta) = { tags: [ "PII" ], params: [ { value: "1", key: "a" } ] }];
  oneof contact { string fax = 3 [(confluent.field_meta) = { doc: "old" }]; }
}
"""


def test_descriptors_carry_custom_options_both_ways() -> None:
    serialized = ProtobufSchema(TAGGED).formatted("serialized")
    read_back = ProtobufSchema(serialized).canonical

    assert 'option (confluent.message_meta) = {\n    doc: "who"\n  };' in read_back
    assert 'tags: [\n      "PII",\n      "PUBLIC"\n    ]' in read_back
    assert 'params: {\n      key: "a",\n      value: "1"\n    },\n    tags: "PII"\n  }];' in read_back
    assert '(confluent.field_meta) = {\n      doc: "old"' in read_back


def test_custom_options_of_the_schema_itself_are_in_its_descriptor() -> None:
    own = """syntax = "proto2"; package own; import "google/protobuf/descriptor.proto";
    enum Level { LOW = 0; HIGH = 7; }
    message Rules { optional Level level = 1; repeated sint32 numbers = 2; optional bytes raw = 3; }
    extend google.protobuf.FieldOptions { optional Rules rules = 50001; repeated int32 marks = 50002; }
    extend google.protobuf.MethodOptions { optional bool cheap = 50003; }
    message A { optional string a = 1 [(rules).level = HIGH, (rules).numbers = -3, (marks) = 4, (marks) = 5]; }
    service S { rpc Get (A) returns (A) { option (own.cheap) = true; }; }"""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(ProtobufSchema(own).formatted("serialized")))

    # level = 7 and numbers = [-3] (zigzag 5) in field 50001; 4 and 5 in field 50002
    expected = b"\x8a\xb5\x18\x04\x08\x07\x10\x05\x90\xb5\x18\x04\x90\xb5\x18\x05"
    assert file.message_type[1].field[0].options.SerializeToString() == expected
    assert file.service[0].method[0].options.SerializeToString() == b"\x98\xb5\x18\x01"


def test_an_option_that_means_nothing_stays_in_the_text() -> None:
    wrong = (
        'syntax = "proto3"; import "confluent/meta.proto"; message A { string a = 1 [(confluent.field_meta).no = 1]; }'
    )
    schema = ProtobufSchema(wrong)

    assert schema.canonical.count("(confluent.field_meta).no = 1") == 1
    assert ProtobufSchema(schema.formatted("serialized")).canonical.count("field_meta") == 0


def test_the_normal_form_of_custom_options_is_one_however_they_are_written() -> None:
    parts = TAGGED.replace('tags: [ "PII" ]', 'tags: "PII"').replace(
        '(confluent.message_meta).doc = "who"', '(confluent.message_meta) = { doc: "who" }'
    )
    normal = ProtobufSchema(TAGGED).normalized().canonical

    assert normal == ProtobufSchema(parts).normalized().canonical
    assert (
        'string name = 1 [(confluent.field_meta) = {\n    tags: [\n      "PII",\n      "PUBLIC"\n    ]\n  }];' in normal
    )


def test_in_the_normal_form_default_and_json_name_stand_among_the_options() -> None:
    written = (
        "message A {\n  optional int32 b = 1 [\n    retention = RETENTION_SOURCE,\n    default = 7,\n"
        '    deprecated = true,\n    json_name = "bee"\n  ];\n}\n'
    )
    schema = ProtobufSchema(written)
    normal = schema.normalized()
    assert [line.split()[0] for line in normal.canonical.splitlines() if line.startswith("    ")] == [
        "default",
        "deprecated",
        "json_name",
        "retention",
    ]
    assert normal.normalized().canonical == normal.canonical
    # Read again it is printed as everything that is not asked to be in order, and is still the same schema.
    again = ProtobufSchema(normal.canonical)
    assert again.canonical != normal.canonical
    assert again.equivalent(normal)
    assert normal.equivalent(again)
    assert again.comparable == normal.comparable


def test_extensions_of_one_number_are_not_a_span_in_the_normal_form() -> None:
    schema = ProtobufSchema('syntax = "proto2"; message A { extensions 5 to 5; extensions 7 to 9; }')

    assert "extensions 5;\n  extensions 7 to 9;" in schema.normalized().canonical
