from __future__ import annotations

import pytest

from barnabas.client.schemas.avro.schema import AvroSchema
from barnabas.services.registry import decide
from barnabas.services.registry.errors import RegistryError
from barnabas.services.registry.records import (
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    NOOP,
    SCHEMA,
    Key,
    Record,
    StoredSchema,
    UnreadableRecord,
    decode_key,
    decode_value,
    schema_from,
)
from barnabas.services.registry.state import State

from .stage import Stage


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (Key(SCHEMA, "s", 3), b'{"keytype":"SCHEMA","subject":"s","version":3,"magic":1}'),
        (Key(CONFIG), b'{"keytype":"CONFIG","magic":0}'),
        (Key(CONFIG, "s"), b'{"keytype":"CONFIG","subject":"s","magic":0}'),
        (Key(MODE, ":.c:"), b'{"keytype":"MODE","subject":":.c:","magic":0}'),
        (Key(DELETE_SUBJECT, "s"), b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'),
        (Key(CONTEXT, ".c"), b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}'),
        (Key(NOOP), b'{"keytype":"NOOP","magic":0}'),
    ],
)
def test_keys_are_confluents_to_the_byte(key: Key, expected: bytes) -> None:
    """Compaction goes by the bytes of the key."""
    assert key.encode() == expected
    assert decode_key(expected) == key


def test_records_of_older_registries_are_read() -> None:
    assert decode_key(b'{"keytype":"CONFIG","subject":null,"magic":0}') == Key(CONFIG)
    value = decode_value(b'{"subject":"s","version":1,"id":7,"schema":"\\"int\\"","deleted":false}')
    assert value is not None
    stored = schema_from(value, 5)
    assert (stored.type, stored.references, stored.id, stored.timestamp_ms) == ("AVRO", (), 7, 5)
    assert decode_key(b'{"keytype":"ASSOC","magic":0}') is None


@pytest.mark.parametrize("key", [None, b"", b"x", b"[]"])
def test_a_record_that_cannot_be_read_says_so(key: bytes | None) -> None:
    with pytest.raises(UnreadableRecord):
        decode_key(key)


def test_the_guid_is_the_hash_of_everything_the_schema_consists_of() -> None:
    # MD5 of the text, as Confluent's registry computes it.
    assert StoredSchema("s", 1, 1, "AVRO", '"string"').guid == guid('"string"')
    with_metadata = StoredSchema("s", 1, 1, "AVRO", '"string"', metadata={"properties": {"a": "b"}})
    assert with_metadata.guid == guid('"string"', b"\x01ab")


def guid(text: str, more: bytes = b"") -> str:
    import hashlib
    from uuid import UUID

    return str(UUID(bytes=hashlib.md5(text.encode() + more).digest()))


class TestIds:
    def test_an_id_belongs_to_the_first_schema_that_took_it(self) -> None:
        stage = Stage()
        first = stage.register("a", '"int"')
        zombie = StoredSchema("b", 1, first.id, "AVRO", '"long"')
        stage.write(zombie.record())
        assert stage.state.by_id(first.id, None).text == '"int"'
        assert stage.state.versions("b") == []
        assert list(stage.state.refused) == [Key(SCHEMA, "b", 1)]
        stage.write(Record(Key(SCHEMA, "b", 1), None))
        assert stage.state.refused == {}

    def test_the_same_schema_under_another_subject_is_not_refused(self) -> None:
        stage = Stage()
        first = stage.register("a", '"int"')
        assert stage.register("b", '"int"').id == first.id
        assert stage.state.refused == {}

    def test_subjects_that_share_an_id_stay_in_their_order(self) -> None:
        stage = Stage()
        shared = stage.register("a", '"int"')
        stage.register("b", '"int"')
        stage.register("c", '"int"')

        def owners() -> list[str]:
            return [each.subject for each in stage.state.subject_versions(shared)]

        stage.carry_out(decide.delete_version(stage.state, "b", 1, False))
        assert owners() == ["a", "b", "c"]
        stage.carry_out(decide.delete_version(stage.state, "b", 1, True))
        assert owners() == ["a", "c"]
        stage.register("b", '"int"')
        assert owners() == ["a", "c", "b"]

    def test_registrations_that_are_under_way_take_different_ids(self) -> None:
        stage = Stage()
        one, other = stage.decide_registration("a", '"int"'), stage.decide_registration("b", '"long"')
        same = stage.decide_registration("c", '"int"')
        assert [each.answer.id for each in (one, other, same)] == [1, 2, 1]

    def test_an_id_that_was_decided_and_never_written_is_not_given_again(self) -> None:
        stage = Stage()
        lost = stage.decide_registration("a", '"int"')
        stage.pending.ids.clear()
        assert stage.register("a", '"int"').id == lost.answer.id + 1

    def test_ids_are_not_used_again_after_hard_deletion_and_compaction(self) -> None:
        stage = Stage()
        stage.register("a", '"int"')
        highest = stage.register("b", '"long"').id
        stage.carry_out(decide.delete_subject(stage.state, "b", False))
        stage.carry_out(decide.delete_subject(stage.state, "b", True))
        later = stage.compacted()
        assert later.state.subjects.keys() == {"a"}
        assert later.register("c", '"bytes"').id == highest + 1

    def test_contexts_count_for_themselves(self) -> None:
        stage = Stage()
        stage.register("a", '"int"')
        stored = stage.register(":.c:a", '"long"')
        assert stored.id == 1
        assert stage.state.contexts == {".c"}
        assert stage.state.by_id(1, ":.c:").text == '"long"'
        assert stage.state.by_id(1, None).text == '"int"'


class TestVersions:
    def test_a_version_belongs_to_its_first_schema(self) -> None:
        """A record that a former primary sent, and the network delivered late."""
        stage = Stage()
        late = stage.decide_registration("a", '"int"')
        stage.pending = decide.Pending()  # of another instance, which has not seen it
        answered = stage.register("a", '"long"')
        assert (answered.id, answered.version) == (late.answer.id, late.answer.version)
        stage.write(*late.records)
        assert stage.state.version("a", 1).text == '"long"'
        assert stage.state.by_id(answered.id, None).text == '"long"'
        assert stage.state.refused == {Key(SCHEMA, "a", 1): stage.state.version("a", 1)}
        stage.write(stage.state.version("a", 1).record())  # it is undone
        assert stage.state.refused == {}
        assert stage.compacted().state.version("a", 1).text == '"long"'

    def test_a_deleted_version_does_not_come_back_as_another_schema(self) -> None:
        stage = Stage()
        late = stage.decide_registration("a", '"int"')
        stage.pending = decide.Pending()
        stage.register("a", '"long"')
        stage.carry_out(decide.delete_version(stage.state, "a", 1, False))
        stage.write(*late.records)
        assert stage.state.latest("a") is None

    def test_an_import_may_replace_a_version(self) -> None:
        stage = Stage()
        stage.carry_out(decide.set_mode(stage.state, decide.Rules(), "a", "IMPORT", False))
        stage.register("a", '"int"', id=5, version=1)
        stage.register("a", '"long"', id=6, version=1)
        assert stage.state.version("a", 1).text == '"long"'


def test_a_registration_does_not_look_into_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subject may have thousands of them."""
    stage = Stage()
    stage.write(Record(Key(CONFIG), {"compatibilityLevel": "NONE"}))
    for number in range(30):
        stage.register("a", f'{{"type":"fixed","name":"F","size":{number + 1}}}')
    stage.decide_registration("a", '"int"')
    monkeypatch.setattr(AvroSchema, "equivalent", lambda *_: pytest.fail("two schemas were compared"))
    assert stage.decide_registration("a", '"long"').answer.version == 31


class TestDeletion:
    def test_soft_deletion_survives_compaction(self) -> None:
        stage = Stage()
        stage.register("a", '"int"')
        stage.register("a", '"long"')
        stage.carry_out(decide.delete_subject(stage.state, "a", False))
        later = stage.compacted()
        assert later.state.latest("a") is None
        assert [each.version for each in later.state.versions("a")] == [1, 2]
        assert later.register("a", '"double"').version == 3

    def test_a_soft_deleted_schema_that_comes_again_replaces_the_old_version(self) -> None:
        stage = Stage()
        first = stage.register("a", '"int"')
        stage.carry_out(decide.delete_version(stage.state, "a", 1, False))
        again = stage.register("a", '"int"')
        assert (again.id, again.version) == (first.id, 2)
        assert [each.version for each in stage.state.versions("a")] == [2]

    def test_a_kept_answer_goes_with_what_it_says(self) -> None:
        stage = Stage()
        stage.register("a", '"int"')
        stage.state.latest("a").answer = b"kept"
        stage.carry_out(decide.delete_subject(stage.state, "a", False))
        assert stage.state.by_id(1, None).answer is None


def test_a_version_given_must_be_the_next() -> None:
    stage = Stage()
    stage.register("a", '"int"')
    with pytest.raises(RegistryError, match="Version is not one more than previous version"):
        stage.register("a", '"long"', version=7)
    assert stage.register("a", '"long"', version=2).metadata == {"properties": {"confluent:version": "2"}}


def test_imports_keep_ids_and_versions_and_clear_what_was_deleted() -> None:
    stage = Stage()
    stage.register("a", '"int"')
    stage.carry_out(decide.delete_subject(stage.state, "a", False))
    stage.carry_out(decide.set_mode(stage.state, decide.Rules(), None, "IMPORT", False))
    assert stage.state.subjects == {}
    imported = stage.register("a", '"long"', id=70, version=5)
    assert (imported.id, imported.version) == (70, 5)
    with pytest.raises(RegistryError, match="Overwrite new schema with id 70"):
        stage.register("b", '"bytes"', id=70)


def test_settings_of_a_subject_a_context_and_all() -> None:
    state = State()
    state.replay(Key(CONFIG), {"compatibilityLevel": "FULL"}, 0)
    state.replay(Key(CONFIG, ":.c:"), {"subject": ":.c:", "compatibilityLevel": "NONE"}, 0)
    state.replay(Key(MODE, "s"), {"subject": "s", "mode": "READONLY"}, 0)
    assert state.config_in_scope("s") == {"compatibilityLevel": "FULL"}
    assert state.config_in_scope(":.c:s") == {"compatibilityLevel": "NONE"}
    assert state.config_in_scope(":.d:s") == {}
    assert (state.mode_in_scope("s"), state.mode_in_scope("t")) == ("READONLY", "READWRITE")
    state.replay(Key(CONFIG), None, 0)
    assert state.config_in_scope("s") == {}
    state.replay(Key(MODE), {"mode": "READONLY_OVERRIDE"}, 0)
    state.replay(Key(MODE, "t"), {"subject": "t", "mode": "READWRITE"}, 0)
    assert state.mode_in_scope("t") == "READONLY_OVERRIDE"
