"""The API v3: resources, configurations, and the stream of records."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from barnabas.client.consumer import AssignedConsumer
from barnabas.client.settings import ClientSettings
from tests.integration.rest.conftest import Api, Stage


def reports(text: Any) -> list[dict[str, Any]]:
    return [text] if isinstance(text, dict) else [json.loads(line) for line in text.splitlines()]


def test_a_topic_from_its_birth_to_its_end(stage: Stage, api: Api) -> None:
    topic = stage.new_topic(1, **{"retention.ms": "1000"})
    path = f"{stage.cluster}/topics/{topic}"
    status, described = api("GET", path)
    url = f"http://127.0.0.1:{api.port}{path}"
    assert (status, described) == (
        200,
        {
            "kind": "KafkaTopic",
            "metadata": {
                "self": url,
                "resource_name": f"crn:///kafka={described['cluster_id']}/topic={topic}",
            },
            "cluster_id": stage.cluster.rpartition("/")[2],
            "topic_name": topic,
            "is_internal": False,
            "replication_factor": 1,
            "partitions_count": 1,
            "partitions": {"related": f"{url}/partitions"},
            "configs": {"related": f"{url}/configs"},
            "partition_reassignments": {"related": f"{url}/partitions/-/reassignment"},
            "authorized_operations": [],
        },
    )
    assert api("PATCH", path, {"partitions_count": 3})[1]["partitions_count"] == 3
    assert api("PATCH", path, {"partitions_count": 2})[1]["error_code"] == 40002
    assert len(api("GET", f"{path}/partitions")[1]["data"]) == 3
    replica = api("GET", f"{path}/partitions/2/replicas/1")[1]
    assert (replica["is_leader"], replica["is_in_sync"]) == (True, True)
    assert api("GET", f"{path}/partitions/2/reassignment")[0] == 404
    allowed = api("GET", f"{path}?include_authorized_operations=true")[1]["authorized_operations"]
    assert {"READ", "WRITE", "DESCRIBE", "ALTER_CONFIGS"} <= set(allowed)
    offsets = api("GET", f"{path}/partitions/0/offset")[1]
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 0)
    assert offsets["metadata"]["resource_name"].endswith("/partition=0/offset_type=earliest_and_latest")
    assert api("GET", f"{path}/partitions/0/offset?offset_type=median")[0] == 400
    assert api("GET", f"{path}/partitions/9/offset")[1]["error_code"] == 40402
    assert topic in {each["topic_name"] for each in api("GET", f"{stage.cluster}/topics")[1]["data"]}
    assert api("DELETE", path) == (204, None)
    assert api("GET", path)[1]["error_code"] == 40403


def test_creation_is_tried_and_refused(stage: Stage, api: Api) -> None:
    topics = f"{stage.cluster}/topics"
    status, tried = api("POST", topics, {"topic_name": "only-tried", "partitions_count": 4, "validate_only": True})
    assert (status, tried["partitions_count"]) == (200, 4)
    assert api("GET", f"{topics}/only-tried")[0] == 404
    topic = stage.new_topic()
    assert api("POST", topics, {"topic_name": "bad name!"}) == (
        422,
        {"error_code": 42206, "message": "Payload error. Invalid topic name."},
    )
    for body, code in (
        ({"topic_name": topic}, 40002),
        ({"topic_name": "x", "replication_factor": 5}, 40002),
        ({"topic_name": "x", "configs": [{"name": "no.such.key", "value": "1"}]}, 40002),
        ({"topic_name": "x", "configs": 5}, 400),
        ({}, 400),
    ):
        status, answer = api("POST", topics, body)
        assert (status, answer["error_code"]) == (400, code), body


def test_configurations_are_set_and_reset(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    configs = f"{stage.cluster}/topics/{topic}/configs"
    assert api("PUT", f"{configs}/retention.ms", {"value": "5000"}) == (204, None)
    found = api("GET", f"{configs}/retention.ms")[1]
    assert (found["value"], found["source"], found["is_default"]) == ("5000", "DYNAMIC_TOPIC_CONFIG", False)
    assert found["synonyms"][0] == {"name": "retention.ms", "value": "5000", "source": "DYNAMIC_TOPIC_CONFIG"}
    changes = [{"name": "retention.ms", "operation": "DELETE"}, {"name": "cleanup.policy", "value": "compact"}]
    assert api("POST", f"{configs}:alter", {"data": changes, "validate_only": True}) == (204, None)
    assert api("GET", f"{configs}/cleanup.policy")[1]["value"] == "delete"
    assert api("POST", f"{configs}:alter", {"data": changes}) == (204, None)
    assert api("GET", f"{configs}/cleanup.policy")[1]["value"] == "compact"
    assert api("GET", f"{configs}/retention.ms")[1]["is_default"] is True
    assert api("DELETE", f"{configs}/cleanup.policy") == (204, None)
    assert api("PUT", f"{configs}/retention.ms", {"value": "soon"})[1]["error_code"] == 40002
    assert api("GET", f"{configs}/no.such.key")[0] == 404
    broker = f"{stage.cluster}/brokers/1/configs"
    assert api("PUT", f"{broker}/log.retention.ms", {"value": "7000"}) == (204, None)
    assert api("GET", f"{broker}/log.retention.ms")[1]["source"] == "DYNAMIC_BROKER_CONFIG"
    assert api("DELETE", f"{broker}/log.retention.ms") == (204, None)
    shared = f"{stage.cluster}/broker-configs"
    assert api("POST", f"{shared}:alter", {"data": [{"name": "log.retention.ms", "value": "9000"}]}) == (204, None)
    # Apache Kafka sets another one when it is formatted.
    assert {"log.retention.ms": "9000"}.items() <= {
        each["name"]: each["value"] for each in api("GET", shared)[1]["data"]
    }.items()
    assert api("DELETE", f"{shared}/log.retention.ms") == (204, None)
    assert api("GET", f"{stage.cluster}/brokers/9/configs")[0] == 404


def test_values_are_taken_as_clients_write_them(stage: Stage, api: Api) -> None:
    """Numbers and booleans without quotes, counts with quotes."""
    name = f"{stage.new_topic()}-typed"
    order = {"topic_name": name, "partitions_count": "2", "configs": [{"name": "retention.ms", "value": 5000}]}
    status, made = api("POST", f"{stage.cluster}/topics", order)
    assert (status, made["partitions_count"]) == (201, 2)
    configs = f"{stage.cluster}/topics/{name}/configs"
    assert api("GET", f"{configs}/retention.ms")[1]["value"] == "5000"
    assert api("PUT", f"{configs}/retention.ms", {"value": 6000}) == (204, None)
    changes = [{"name": "preallocate", "value": True}, {"name": "min.cleanable.dirty.ratio", "value": 0.25}]
    assert api("POST", f"{configs}:alter", {"data": changes}) == (204, None)
    found = {each["name"]: each["value"] for each in api("GET", configs)[1]["data"]}
    assert [found[key] for key in ("retention.ms", "preallocate", "min.cleanable.dirty.ratio")] == [
        "6000",
        "true",
        "0.25",
    ]
    odd: list[Any] = [{}, [1]]
    for value in odd:
        refused = {"error_code": 400, "message": "value is not a string."}
        assert api("POST", f"{configs}:alter", {"data": [{"name": "retention.ms", "value": value}]}) == (400, refused)


def test_a_configuration_that_there_is_not(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    cluster_id = stage.cluster.rpartition("/")[2]
    text = f"Config no.such.key cannot be found for TOPIC {topic} in cluster {cluster_id}."
    configs = f"{stage.cluster}/topics/{topic}/configs"
    for method, path, body in (
        ("PUT", f"{configs}/no.such.key", {"value": "1"}),
        ("DELETE", f"{configs}/no.such.key", None),
        ("POST", f"{configs}:alter", {"data": [{"name": "no.such.key", "value": "1"}]}),
    ):
        assert api(method, path, body) == (404, {"error_code": 404, "message": text})


def test_configurations_of_several_topics_at_once(stage: Stage, api: Api) -> None:
    one, other = stage.new_topic(), stage.new_topic()
    path = f"{stage.cluster}/topics/-/configs:alter"
    changes = [{"topic_name": name, "name": "retention.ms", "value": "5000"} for name in (one, "nowhere", other)]
    status, answer = api("POST", path, {"data": changes})
    assert (status, answer) == (
        207,
        {
            "failures": [
                {
                    "topic_name": "nowhere",
                    "error_code": 40403,
                    "message": "This server does not host this topic-partition.",
                }
            ]
        },
    )
    for name in (one, other):
        assert api("GET", f"{stage.cluster}/topics/{name}/configs/retention.ms")[1]["value"] == "5000"
    assert api("POST", path, {"data": changes[:1]}) == (204, None)


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("POST", "/topics", 42206, "Payload error. Request body is empty. Data is required."),
        ("PATCH", "/topics/t", 42206, "Payload error. Request body is empty. Partitions_count is required."),
        ("POST", "/topics/t/configs:alter", 42206, "Payload error. Null input provided. Data is required."),
        ("PUT", "/brokers/1/configs/a", 42206, "Payload error. Null input provided. Data is required."),
        ("POST", "/acls", 42206, "Payload error. Null input provided. Data is required."),
        ("POST", "/topics/t/records:batch", 42208, "Request body is empty. Data is required."),
    ],
)
def test_bodies_that_are_not_there(stage: Stage, api: Api, method: str, path: str, code: int, message: str) -> None:
    assert api(method, f"{stage.cluster}{path}", b"") == (422, {"error_code": code, "message": message})


@pytest.mark.parametrize("missing", ["resource_type", "pattern_type", "operation", "permission"])
def test_acls_are_not_deleted_by_a_vague_question(stage: Stage, api: Api, missing: str) -> None:
    given = ("resource_type", "pattern_type", "operation", "permission")
    query = "&".join(f"{name}=any" for name in given if name != missing)
    text = f"Bad Request: {missing} cannot be unspecified or UNKNOWN"
    assert api("DELETE", f"{stage.cluster}/acls?{query}") == (400, {"error_code": 400, "message": text})


def test_another_cluster_is_not_here(api: Api) -> None:
    message = "Cluster my-cluster cannot be found."
    assert api("GET", "/v3/clusters/my-cluster/topics") == (404, {"error_code": 404, "message": message})


def test_brokers(stage: Stage, api: Api) -> None:
    (broker,) = api("GET", f"{stage.cluster}/brokers")[1]["data"]
    assert (broker["broker_id"], broker["kind"]) == (1, "KafkaBroker")
    assert api("GET", f"{stage.cluster}/brokers/1")[1] == broker
    assert api("GET", f"{stage.cluster}/brokers/9")[0] == 404
    topic = stage.new_topic()
    replicas = api("GET", f"{stage.cluster}/brokers/1/partition-replicas")[1]["data"]
    assert topic in {each["topic_name"] for each in replicas}


def test_groups_that_there_are_not(stage: Stage, api: Api) -> None:
    groups = f"{stage.cluster}/consumer-groups/nobody"
    for path, message in (
        ("", "HTTP 404 Not Found"),
        ("/consumers", "Consumer Group nobody does not exist."),
        ("/lags", "Consumer Group nobody could not be found."),
        ("/lag-summary", "Consumer Group nobody could not be found."),
    ):
        assert api("GET", f"{groups}{path}") == (404, {"error_code": 404, "message": message})


def test_records_of_every_type_in_one_body(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    body = b"""{"value": {"type": "BINARY", "data": "Zm9v"}}
      {"key": {"type": "STRING", "data": "k"}, "value": {"type": "JSON", "data": {"a": "}{"}},
       "headers": [{"name": "h", "value": "Yg=="}], "timestamp": "2021-02-05T19:14:42Z"}
      {"value": {"type": "AVRO", "schema": "{\\"type\\": \\"string\\"}", "data": "foobar"}}
      {"value": {"data": "latest"}}
      {"value": {"type": "BINARY", "data": 1}} {"value": {"type": "NOTHING", "data": 1}}
      {"partition_id": 9, "value": {"type": "STRING", "data": "x"}}{"key": {"type": "STRING", "data": "gone"}}"""
    status, text = api("POST", f"{stage.cluster}/topics/{topic}/records", body)
    told = reports(text)
    assert status == 200
    assert [each["error_code"] for each in told] == [200, 200, 200, 200, 400, 400, 40403, 200]
    assert [each.get("offset") for each in told] == [0, 1, 2, 3, None, None, None, 4]
    assert told[0]["value"] == {"type": "BINARY", "size": 3}
    assert told[1]["timestamp"] == "2021-02-05T19:14:42.000Z"
    assert told[2]["value"]["subject"] == f"{topic}-value"
    assert told[2]["value"]["schema_id"] == told[3]["value"]["schema_id"]
    assert told[4]["message"] == "Bad Request: data=1 is not a base64 string."
    settings = ClientSettings.from_properties({}, bootstrap_servers=stage.node.bootstrap_servers)
    with AssignedConsumer(settings) as consumer:
        consumer.assign({(topic, 0): -2})
        records = consumer.poll(60_000)
    assert [(each.key, each.value) for each in records[:2]] == [(None, b"foo"), (b"k", b'{"a":"}{"}')]
    assert (records[1].headers, records[1].timestamp) == ([("h", b"b")], 1612552482000)
    assert records[4].value is None


def test_a_report_comes_while_the_stream_goes_on(stage: Stage) -> None:
    topic = stage.new_topic()
    connection = http.client.HTTPConnection("127.0.0.1", stage.api.port, timeout=60)
    connection.putrequest("POST", f"{stage.cluster}/topics/{topic}/records")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.putheader("Content-Type", "application/json")
    connection.endheaders()

    def send(text: bytes) -> None:
        connection.send(b"%x\r\n%s\r\n" % (len(text), text))

    send(b'{"value":{"type":"STRING","data":"\\')
    send(b'"one"}}')
    response = connection.response_class(connection.sock, method="POST")
    response.begin()
    assert json.loads(response.readline())["offset"] == 0
    for number in range(1, 20):
        send(b'{"value":{"type":"JSON","data":%d}}' % number)
        assert json.loads(response.readline())["offset"] == number
    connection.send(b"0\r\n\r\n")
    assert response.read() == b""
    connection.close()


def test_a_batch_of_records(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    path = f"{stage.cluster}/topics/{topic}/records:batch"
    entries = [
        {"id": "1", "value": {"type": "STRING", "data": "one"}},
        {"id": "2", "value": {"type": "BINARY", "data": "!"}},
    ]
    status, answer = api("POST", path, {"entries": entries})
    assert (status, [each["id"] for each in answer["successes"]]) == (207, ["1"])
    assert answer["failures"] == [
        {"id": "2", "error_code": 400, "message": 'Bad Request: data="!" is not a valid base64 string.'}
    ]
    for body in ({"entries": []}, {"entries": [entries[0]] * 2}, {"entries": [{"value": {}}]}):
        assert api("POST", path, body)[1]["error_code"] == 42208


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"", 42206), (b"  ", 42206), (b"5", 400), (b"{", 400), (b'{"a":1}}', 400), (b"[1]", 400), (b"{]}", 400)],
)
def test_bodies_that_are_no_records(stage: Stage, api: Api, body: bytes, code: int) -> None:
    topic = stage.new_topic()
    _, text = api("POST", f"{stage.cluster}/topics/{topic}/records", body)
    assert reports(text)[-1]["error_code"] == code


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"records": [{"value": 1}]}, "Unrecognized field: records"),
        ({"value": {"type": "JSON", "data": 1}, "partition": 0}, "Unrecognized field: partition"),
        ({"value": {"type": "JSON", "dat": 1}}, "Unrecognized field: dat"),
        ({"headers": [{"key": "a", "name": "a"}]}, "Unrecognized field: key"),
        ({"key": {"type": "BINARY", "subject": "s"}}, "'type=BINARY' cannot be used with 'subject'."),
        ({"key": {"type": "STRING", "schema_id": 1}}, "'type=STRING' cannot be used with 'schema_id'."),
        ({"key": {"type": "JSON", "schema": "{}"}}, "'type=JSON' cannot be used with 'schema'."),
        (
            {"key": {"schema_id": 1, "schema_version": 1}},
            "Only one of 'schema_id', 'schema_version' or 'schema' can be used.",
        ),
        (
            {"key": {"subject": "s", "subject_name_strategy": "TOPIC_NAME"}},
            "Only one of 'subject_name_strategy' or 'subject' can be used.",
        ),
    ],
)
def test_what_nobody_would_read_is_refused_and_nothing_is_written(
    stage: Stage, api: Api, body: dict[str, Any], told: str
) -> None:
    topic = stage.new_topic()
    path = f"{stage.cluster}/topics/{topic}"
    _, text = api("POST", f"{path}/records", body)
    assert reports(text) == [{"error_code": 400, "message": f"Bad Request: {told}"}]
    _, batch = api("POST", f"{path}/records:batch", {"entries": [{"id": "a_B-1", **body}]})
    assert batch == {
        "successes": [],
        "failures": [{"id": "a_B-1", "error_code": 400, "message": f"Bad Request: {told}"}],
    }
    assert api("GET", f"/topics/{topic}/partitions/0/offsets")[1]["end_offset"] == 0
    assert api("POST", f"{path}/records:batch", {"entries": [{"id": "1"}], **body})[1]["error_code"] == 422
    assert api("POST", f"{path}/records:batch", {"entries": [{"id": "a b"}]})[1]["error_code"] == 42208


def test_records_for_a_topic_that_is_not_there(stage: Stage, api: Api) -> None:
    body = {"value": {"type": "STRING", "data": "x"}}
    _, text = api("POST", f"{stage.cluster}/topics/bad%20name/records", body)
    assert reports(text) == [{"error_code": 40403, "message": "This server does not host this topic-partition."}]


def test_the_same_wrong_type_is_told_by_status(stage: Stage, api: Api) -> None:
    topic = stage.new_topic()
    path = f"{stage.cluster}/topics/{topic}/records"
    assert api("POST", path, {}, Content_Type="text/plain")[0] == 415


def test_metrics(stage: Stage, api: Api) -> None:
    api("GET", "/topics/made-up")
    status, text = api("GET", "/metrics")
    assert status == 200
    assert 'route="/topics/{topic}",status="404"' in text
    assert "made-up" not in text
