"""The paths of the API over a real node."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from barnabas.testing.registry import Registry
from tests.support.service_cluster import ServiceCluster

MEASURED = {"type": "record", "name": "Measurement", "fields": [{"name": "value", "type": "long"}]}


def with_field(**field: Any) -> dict[str, Any]:
    return MEASURED | {"fields": [*MEASURED["fields"], field]}  # type: ignore[misc]


WITHOUT_DEFAULT = with_field(name="unit", type="string")
WITH_DEFAULT = with_field(name="unit", type="string", default="C")


def test_a_schema_evolves_as_the_courses_show_it(api: Any, subject: str) -> None:
    status, first = api.register(subject, MEASURED)
    assert status == 200
    assert first["version"] == 1
    assert first["schemaType"] == "AVRO"
    assert first["schema"] == json.dumps(MEASURED, separators=(",", ":"))
    status, refused = api.register(subject, WITHOUT_DEFAULT)
    assert status == 409
    assert refused["error_code"] == 409
    assert refused["message"] == (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
        "[{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'unit' at path '/fields/1' in the "
        "new schema has no default value and is missing in the old schema', additionalInfo:'unit'}, "
        f"{{oldSchemaVersion: 1}}, {{oldSchema: '{first['schema']}'}}, "
        "{validateFields: 'false', compatibility: 'BACKWARD'}]"
    )
    status, second = api.register(subject, WITH_DEFAULT)
    assert (status, second["version"]) == (200, 2)
    assert api("GET", f"/subjects/{subject}/versions") == (200, [1, 2])
    assert api("GET", f"/schemas/ids/{first['id']}")[1]["schema"] == first["schema"]
    assert api("GET", f"/schemas/ids/{first['id']}/schema") == (200, MEASURED)
    assert api("GET", f"/schemas/ids/{first['id']}/versions") == (200, [{"subject": subject, "version": 1}])
    assert api("GET", f"/schemas/ids/{first['id']}/subjects") == (200, [subject])
    assert api("GET", f"/schemas/guids/{first['guid']}")[1]["schema"] == first["schema"]
    latest = api("GET", f"/subjects/{subject}/versions/latest")[1]
    assert {key: latest[key] for key in ("subject", "version", "id")} == {
        "subject": subject,
        "version": 2,
        "id": second["id"],
    }
    assert latest["deleted"] is False
    assert isinstance(latest["ts"], int)


def test_the_same_schema_is_registered_once_and_found_again(api: Any, subject: str) -> None:
    _, first = api.register(subject, MEASURED)
    assert api.register(subject, f"  {json.dumps(MEASURED, indent=2)}") == (200, first)
    other = f"{subject}-other"
    _, elsewhere = api.register(other, MEASURED)
    assert (elsewhere["id"], elsewhere["version"]) == (first["id"], 1)
    status, found = api("POST", f"/subjects/{subject}", {"schema": json.dumps(MEASURED)})
    assert (status, found["version"], found["id"]) == (200, 1, first["id"])
    assert found == first | {"subject": subject}  # without ts and deleted: the same parts were asked for
    versioned = {"schema": json.dumps(MEASURED), "metadata": {"properties": {"confluent:version": "1"}}}
    alike = api("POST", f"/subjects/{subject}", versioned)[1]
    assert alike["deleted"] is False
    assert isinstance(alike["ts"], int)  # what only means the same is answered as it is stored
    missing = api("POST", f"/subjects/{subject}", {"schema": '"string"'})
    assert missing == (404, {"error_code": 40403, "message": "Schema not found"})


def test_an_id_is_told_with_the_first_version_that_has_it(api: Any, subject: str) -> None:
    """Confluent's registry tells a subject and a version whether the question names a subject or not."""
    own, other = MEASURED | {"doc": subject}, f"{subject}-other"
    _, first = api.register(subject, own)
    api.register(other, own)
    path = f"/schemas/ids/{first['id']}"

    def told(query: str = "") -> tuple[Any, ...]:
        answer = api("GET", path + query)[1]
        return answer["subject"], answer["version"], answer["deleted"]

    assert told() == (subject, 1, False)
    assert told("?format=resolved") == (subject, 1, False)
    assert told(f"?subject={other}") == (other, 1, False)
    api("DELETE", f"/subjects/{subject}")
    assert told() == (subject, 1, True)
    assert api("GET", f"{path}/subjects?deleted=true") == (200, [subject, other])
    api("DELETE", f"/subjects/{subject}?permanent=true")
    assert told() == (other, 1, False)
    by_guid = api("GET", f"/schemas/guids/{first['guid'].upper()}")[1]
    assert by_guid["guid"] == first["guid"]
    assert not {"subject", "version"} & by_guid.keys()
    assert api("GET", f"/schemas/guids/{first['guid'].upper()}/ids")[1] == [{"context": ".", "id": first["id"]}]


def test_soft_and_hard_deletion(api: Any, subject: str) -> None:
    own = MEASURED | {"doc": subject}  # nobody else holds its id
    _, first = api.register(subject, own)
    api.register(subject, WITH_DEFAULT)
    path = f"/subjects/{subject}"
    text = f"Subject '{subject}' Version 1 was not deleted first before being permanently deleted"
    assert api("DELETE", f"{path}/versions/1?permanent=true") == (404, {"error_code": 40407, "message": text})
    assert api("DELETE", f"{path}/versions/1") == (200, 1)
    assert api("DELETE", f"{path}/versions/1")[1]["error_code"] == 40406
    assert api("GET", f"{path}/versions") == (200, [2])
    assert api("GET", f"{path}/versions?deleted=true") == (200, [1, 2])
    assert api("GET", f"{path}/versions?deletedOnly=true") == (200, [1])
    assert api("GET", f"{path}/versions/1")[1]["error_code"] == 40402
    assert api("GET", f"{path}/versions/1?deleted=true")[1]["deleted"] is True
    assert api("GET", f"/schemas/ids/{first['id']}")[0] == 200
    assert api("DELETE", f"{path}/versions/1?permanent=true") == (200, 1)
    assert api("DELETE", path) == (200, [2])
    assert api("DELETE", path)[1]["error_code"] == 40404
    assert api("GET", f"{path}/versions")[1] == {"error_code": 40401, "message": f"Subject '{subject}' not found."}
    assert api("DELETE", f"{path}?permanent=true") == (200, [2])
    assert api("GET", f"/schemas/ids/{first['id']}")[1]["error_code"] == 40403
    _, again = api.register(subject, own)
    assert again["version"] == 1
    assert again["id"] > first["id"]  # ids are not used again


def test_levels_of_a_subject_of_a_context_and_of_all(api: Any, subject: str) -> None:
    api.register(subject, WITH_DEFAULT)
    dropped = {
        "error_code": 40408,
        "message": f"Subject '{subject}' does not have subject-level compatibility configured",
    }
    assert api("GET", f"/config/{subject}") == (404, dropped)
    assert api("GET", f"/config/{subject}?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert api("PUT", f"/config/{subject}", {"compatibility": "NEVER"})[1]["error_code"] == 42203
    assert api("PUT", f"/config/{subject}", {"compatibility": "forward"}) == (200, {"compatibility": "FORWARD"})
    assert api.register(subject, MEASURED)[0] == 200
    assert api("PUT", f"/config/{subject}", {"compatibility": "FULL_TRANSITIVE"})[0] == 200
    assert api.register(subject, WITHOUT_DEFAULT)[0] == 409
    assert api("DELETE", f"/config/{subject}") == (200, {"compatibilityLevel": "FULL_TRANSITIVE"})
    assert api("DELETE", f"/config/{subject}")[1]["error_code"] == 40401
    assert api("PUT", "/contexts/levels/config", {"compatibility": "NONE"})[0] == 200
    assert api("GET", "/config/:.levels:") == (200, {"compatibilityLevel": "NONE"})
    api.register(f":.levels:{subject}", MEASURED)
    assert api.register(f":.levels:{subject}", '"string"')[0] == 200


def test_modes(api: Any, subject: str) -> None:
    assert api("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert api("GET", f"/mode/{subject}")[1]["error_code"] == 40409
    assert api("PUT", f"/mode/{subject}", {"mode": "SLEEPING"})[1]["error_code"] == 42204
    assert api("PUT", f"/mode/{subject}", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    refused = {"error_code": 42205, "message": f"Subject {subject} in context  is in read-only mode"}
    assert api.register(subject, MEASURED) == (422, refused)
    assert api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})[0] == 200
    status, imported = api.register(subject, MEASURED, id=10_001, version=7)
    assert (status, imported["id"], imported["version"]) == (200, 10_001, 7)
    assert api.register(subject, '"string"', id=10_001)[1]["error_code"] == 42205
    assert api("DELETE", f"/mode/{subject}") == (200, {"mode": "IMPORT"})
    assert api.register(subject, WITH_DEFAULT, id=10_005)[1]["error_code"] == 42205
    status, after = api.register(subject, WITH_DEFAULT | {"doc": subject})
    assert (status, after["version"]) == (200, 8)
    assert after["id"] > 10_001
    assert api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})[1]["message"] == (
        "Cannot import since found existing subjects"
    )
    assert api("PUT", f"/mode/{subject}?force=true", {"mode": "IMPORT"})[0] == 200


def test_references(api: Any, subject: str) -> None:
    used = f"{subject}-used"
    api.register(used, {"type": "record", "name": "shop.Customer", "fields": [{"name": "id", "type": "int"}]})
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "by", "type": "shop.Customer"}]}
    reference = {"name": "shop.Customer", "subject": used, "version": 1}
    assert api.register(subject, order)[1]["error_code"] == 42201
    status, stored = api.register(subject, order, references=[reference])
    assert status == 200
    assert stored["references"] == [reference]
    assert "Customer" in stored["schema"]
    assert "int" not in stored["schema"]
    resolved = api("GET", f"/schemas/ids/{stored['id']}?format=resolved")[1]["schema"]
    assert json.loads(resolved)["fields"][0]["type"]["fields"] == [{"name": "id", "type": "int"}]
    assert api("GET", f"/subjects/{used}/versions/1/referencedby") == (200, [stored["id"]])
    key = f"{{magic=1,keytype=SCHEMA,subject={used},version=1}}"
    text = f"One or more references exist to the schema {key}."
    assert api("DELETE", f"/subjects/{used}/versions/1") == (422, {"error_code": 42206, "message": text})
    assert api("DELETE", f"/subjects/{used}") == (422, {"error_code": 42206, "message": text})
    # With its references resolved it is the same schema.
    assert api.register(subject, resolved)[1]["id"] == stored["id"]
    missing = {"name": "shop.Customer", "subject": used, "version": 9}
    assert "No schema reference found" in api.register(f"{subject}-2", order, references=[missing])[1]["message"]
    assert api("DELETE", f"/subjects/{subject}") == (200, [1])
    assert api("DELETE", f"/subjects/{used}") == (200, [1])


def test_contexts_and_aliases(api: Any, subject: str) -> None:
    _, stored = api("POST", f"/contexts/.other/subjects/{subject}/versions", {"schema": '"int"'})
    assert stored["version"] == 1
    assert ".other" in api("GET", "/contexts")[1]
    assert api("GET", f"/subjects?subjectPrefix=:.other:{subject}") == (200, [f":.other:{subject}"])
    assert api("GET", f"/contexts/.other/subjects/{subject}/versions") == (200, [1])
    assert api("GET", f"/contexts/other/schemas/ids/{stored['id']}")[1]["schema"] == '"int"'
    # A subject without a context is looked for in all of them.
    assert api("GET", f"/subjects/{subject}/versions/1")[1]["subject"] == f":.other:{subject}"
    assert api("PUT", f"/config/{subject}-alias", {"alias": f":.other:{subject}"})[0] == 200
    assert api("GET", f"/subjects/{subject}-alias/versions/latest")[1]["subject"] == f":.other:{subject}"
    assert api("DELETE", "/contexts/.other")[1]["error_code"] == 42211
    api("DELETE", f"/subjects/:.other:{subject}")
    api("DELETE", f"/subjects/:.other:{subject}?permanent=true")
    assert api("DELETE", "/contexts/.other") == (204, None)
    assert ".other" not in api("GET", "/contexts")[1]


def test_aliases_are_told_with_the_schemas_they_stand_for(api: Any, subject: str) -> None:
    """Whether or not they are looked for in every context."""
    assert api.register(subject, '"int"')[0] == 200
    assert api.register(f":.far:{subject}", '"int"')[0] == 200
    for alias, target in ((f"{subject}-alias", subject), (f":.far:{subject}-far", subject)):
        assert api("PUT", f"/config/{alias}", {"alias": target})[0] == 200

    def told(prefix: str) -> dict[str, Any]:
        status, found = api("GET", f"/schemas?subjectPrefix={prefix}&aliases=true")
        assert status == 200
        return {each["subject"]: each.get("aliases") for each in found if subject in each["subject"]}

    assert told(f":*:{subject}") == {subject: [f"{subject}-alias"], f":.far:{subject}": [f":.far:{subject}-far"]}
    assert told(f"{subject}-al") == {subject: [f"{subject}-alias"]}
    assert told(f":.far:{subject}") == {f":.far:{subject}": [f":.far:{subject}-far"]}
    assert told("no-such") == {}


def test_metadata_and_rules_are_kept(api: Any, subject: str) -> None:
    metadata = {"tags": {"a": ["PII"]}, "properties": {"owner": "anna"}, "sensitive": ["owner"]}
    rule = {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
    rules = {"domainRules": [rule]}
    _, stored = api.register(subject, MEASURED, metadata=metadata, ruleSet=rules)
    assert stored["metadata"] == metadata
    assert stored["ruleSet"] == {"domainRules": [rule | {"disabled": False}]}
    # The next version takes over what it does not say itself.
    _, following = api.register(subject, WITH_DEFAULT)
    assert (following["metadata"], following["version"]) == (metadata, 2)
    assert api("GET", f"/subjects/{subject}/metadata?key=owner&value=anna")[1]["version"] == 2
    twice = {"domainRules": [rule, rule]}
    assert api.register(subject, MEASURED, ruleSet=twice)[1]["error_code"] == 42210


def test_a_subject_may_hold_any_character(api: Any, subject: str) -> None:
    name = f"{subject}/a b%é"
    quoted = f"{subject}%2Fa%20b%25%C3%A9"
    assert api.register(quoted, MEASURED)[0] == 200
    assert name in api("GET", "/subjects")[1]
    assert api("GET", f"/subjects/{quoted}/versions") == (200, [1])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing/here", 404, 404),
        ("GET", "/associations/resources/topic", 404, 404),
        ("PATCH", "/subjects", 405, 405),
        ("GET", "/schemas/ids/abc", 404, 404),
        ("GET", "/schemas/ids/99999999", 404, 40403),
        ("GET", "/subjects/nobody/versions/latest", 404, 40401),
        ("GET", "/subjects/nobody/versions/0", 422, 42202),
        ("GET", "/subjects/nobody/versions/first", 422, 42202),
        ("GET", "/contexts/a:b/subjects", 400, 400),
    ],
)
def test_what_is_not_there(api: Any, method: str, path: str, status: int, code: int) -> None:
    answered, body = api(method, path)
    assert (answered, body["error_code"]) == (status, code)
    assert isinstance(body["message"], str)


def test_numbers_in_the_place_of_texts_are_read_as_their_text(api: Any, subject: str) -> None:
    assert api("PUT", f"/config/{subject}", {"compatibility": 1})[1]["error_code"] == 42203
    assert api("PUT", f"/mode/{subject}", {"mode": True})[1]["error_code"] == 42204
    unknown = api("POST", f"/subjects/{subject}/versions", {"schema": '"int"', "schemaType": 1})
    assert unknown == (422, {"error_code": 42201, "message": "Invalid schema type 1"})
    assert api("POST", f"/subjects/{subject}/versions", {"schema": 1})[1]["error_code"] == 42201


def test_types_of_content(api: Any) -> None:
    assert api("GET", "/subjects", Accept="text/html")[0] == 406
    assert api("PUT", "/config", b"{}", Content_Type="text/plain")[0] == 415
    assert api("PUT", "/config", b"{}", Content_Type="application/json; charset=utf-8")[0] == 200
    assert api("PUT", "/config", b"{", Content_Type="application/json")[0] == 400
    assert api("PUT", "/config", b"[]")[0] == 400
    assert api("GET", "/subjects", Accept="application/json")[0] == 200


def test_what_was_written_is_there_after_a_restart(kafka: ServiceCluster, api_of: Any, subject: str) -> None:
    with Registry(
        kafka.bootstrap_servers, {"kafkastore.topic": "_kept", "schema.registry.group.id": "kept"}
    ) as registry:
        api = api_of(registry)
        _, stored = api.register(subject, MEASURED)
        _, gone = api.register(f"{subject}-gone", '"bytes"')
        api("PUT", f"/config/{subject}", {"compatibility": "NONE"})
        api("DELETE", f"/subjects/{subject}-gone")
        api("DELETE", f"/subjects/{subject}-gone?permanent=true")
        registry.kill()
        registry.start()
        assert api("GET", f"/schemas/ids/{stored['id']}")[1]["schema"] == stored["schema"]
        assert api("GET", f"/config/{subject}") == (200, {"compatibilityLevel": "NONE"})
        assert api.register(subject, '"long"')[1]["id"] == gone["id"] + 1


def test_a_port_in_use_and_a_topic_that_loses_schemas_are_told_in_a_sentence(kafka: ServiceCluster) -> None:
    from barnabas.testing import StartFailed

    with socket.create_server(("127.0.0.1", 0)) as taken:
        registry = Registry(kafka.bootstrap_servers)
        registry.port = taken.getsockname()[1]
        with pytest.raises(StartFailed, match="cannot listen on"):
            registry.start()
    kafka.create_topic("_leaky", config={"cleanup.policy": "delete"})
    with pytest.raises(StartFailed, match="would lose schemas"):
        Registry(kafka.bootstrap_servers, {"kafkastore.topic": "_leaky"}).start()


def test_a_difference_is_explained_to_programs_that_ask(api: Any, subject: str) -> None:
    fields = [{"name": "a", "type": "int"}]
    api.register(subject, {"type": "record", "name": "R", "fields": fields})
    new = {"type": "record", "name": "R", "fields": [*fields, {"name": "b", "type": "int"}]}
    body = {"schema": json.dumps(new)}
    path = f"/compatibility/subjects/{subject}/versions/latest"
    status, told = api("POST", f"{path}?verbose", body)
    assert (status, told["is_compatible"]) == (200, False)
    assert [(each["rule"], each["path"]) for each in told["diff"]] == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1")
    ]
    # Confluent's clients break on fields that they do not know.
    assert set(api("POST", f"{path}?verbose=true", body)[1]) == {"is_compatible", "messages"}
    assert api("POST", path, body) == (200, {"is_compatible": False})
