"""What courses let people type, word for word by curl, and every byte that they see.

Registering schemas that evolve and the one that is refused; a topic made by v3, written and read by v2; Avro by the
proxy. Only ports, the cluster's id and ids of schemas differ from one run to the next.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess

import pytest

from tests.integration.rest.conftest import Stage
from tests.support.waiting import wait_until

V2, V2_JSON, V2_AVRO = (f"application/vnd.kafka.{kind}v2+json" for kind in ("", "json.", "avro."))
SENSOR = [{"name": "sensor_id", "type": "string"}, {"name": "value", "type": ["long", "string"]}]
CONSUMER = "http://localhost:8082/consumers/rest_proxy_test_consumer"

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


class Terminal:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cluster_id = stage.cluster.rpartition("/")[2]

    def __call__(self, command: str) -> str:
        """What curl prints, with the names and ports that the courses use."""
        for known, own in self._ports():
            command = command.replace(known, own)
        words = shlex.split(command.replace("{cluster_id}", self.cluster_id))
        done = subprocess.run(["curl", "-s", "-S", *words[1:]], capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr
        printed = done.stdout.replace(self.cluster_id, "{cluster_id}")
        for known, own in self._ports():
            printed = printed.replace(own, known)
        return printed

    def _ports(self) -> list[tuple[str, str]]:
        rest, registry = self.stage.rests[0].port, self.stage.registry.port
        return [("localhost:8082", f"127.0.0.1:{rest}"), ("localhost:8081", f"127.0.0.1:{registry}")]


@pytest.fixture
def terminal(stage: Stage) -> Terminal:
    return Terminal(stage)


def sensor(*more: object) -> str:
    """A schema as it stands in the body of a request."""
    tree = {"type": "record", "name": "Sensor", "namespace": "iot", "fields": [*SENSOR, *more]}
    return json.dumps({"schema": json.dumps(tree, separators=(",", ":"))})


def test_a_schema_evolves_and_one_is_refused(terminal: Terminal) -> None:
    register = (
        "curl -X POST -H 'Content-Type: application/vnd.schemaregistry.v1+json' --data '{}' "
        "http://localhost:8081/subjects/avro-sensor-value/versions"
    )
    unit = {"name": "type", "type": "string"}
    first = json.loads(terminal(register.replace("{}", sensor())))
    assert (first["version"], first["schemaType"]) == (1, "AVRO")
    refused = terminal(register.replace("{}", sensor(unit)))
    old = json.loads(sensor())["schema"]
    assert json.loads(refused) == {
        "error_code": 409,
        "message": 'Schema being registered is incompatible with an earlier schema for subject "avro-sensor-value", '
        "details: [{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'type' at path '/fields/2' "
        "in the new schema has no default value and is missing in the old schema', additionalInfo:'type'}, "
        f"{{oldSchemaVersion: 1}}, {{oldSchema: '{old}'}}, {{validateFields: 'false', compatibility: 'BACKWARD'}}]",
    }
    second = json.loads(terminal(register.replace("{}", sensor(unit | {"default": "unknown"}))))
    assert second["version"] == 2
    subjects = "curl http://localhost:8081/subjects"
    assert '"avro-sensor-value"' in terminal(subjects)
    assert terminal(f"{subjects}/avro-sensor-value/versions") == "[1,2]"
    assert terminal(f"curl http://localhost:8081/schemas/ids/{first['id']}/schema") == old
    assert terminal("curl http://localhost:8081/config") == '{"compatibilityLevel":"BACKWARD"}'
    assert terminal(f"curl -X DELETE {subjects[5:]}/avro-sensor-value/versions/1") == "1"
    assert terminal(f"{subjects}/avro-sensor-value/versions") == "[2]"
    assert terminal(f"{subjects}/nobody/versions") == '{"error_code":40401,"message":"Subject \'nobody\' not found."}'


def test_a_topic_is_made_written_and_read(terminal: Terminal) -> None:
    made = terminal(
        """curl -X POST -H "Content-Type: application/json" \
        --data '{"topic_name":"REST_PROXY_TEST", "partitions_count": 5, "configs": []}' \
        "http://localhost:8082/v3/clusters/{cluster_id}/topics" """
    )
    url = "http://localhost:8082/v3/clusters/{cluster_id}/topics/REST_PROXY_TEST"
    assert made == (
        f'{{"kind":"KafkaTopic","metadata":{{"self":"{url}","resource_name":"crn:///kafka={{cluster_id}}/topic='
        'REST_PROXY_TEST"},"cluster_id":"{cluster_id}","topic_name":"REST_PROXY_TEST","is_internal":false,'
        f'"replication_factor":1,"partitions_count":5,"partitions":{{"related":"{url}/partitions"}},"configs":'
        f'{{"related":"{url}/configs"}},"partition_reassignments":{{"related":"{url}/partitions/-/reassignment"}},'
        '"authorized_operations":[]}'
    )
    shown = terminal("curl http://localhost:8082/topics/REST_PROXY_TEST")
    assert shown.startswith('{"name":"REST_PROXY_TEST","configs":{')
    assert shown.count('"replicas":[{"broker":1,"leader":true,"in_sync":true}]') == 5
    written = terminal(
        f"""curl -X POST -H "Content-Type: {V2_JSON}" -H "Accept: {V2}" \
        --data '{{"records":[{{"key":"jsmith","value":"alarm clock"}},{{"key":"htanaka","value":"batteries"}},\
{{"key":"awalther","value":"bookshelves"}}]}}' "http://localhost:8082/topics/REST_PROXY_TEST" """
    )
    answer = json.loads(written)
    assert [each["error_code"] for each in answer["offsets"]] == [None] * 3
    assert (
        terminal(
            f"""curl -X POST -H "Content-Type: {V2}" --data '{{"name": "rest_proxy_test_consumer", "format": "json", \
"auto.offset.reset": "earliest"}}' {CONSUMER}"""
        )
        == f'{{"instance_id":"rest_proxy_test_consumer","base_uri":"{CONSUMER}/instances/rest_proxy_test_consumer"}}'
    )
    instance = f"{CONSUMER}/instances/rest_proxy_test_consumer"
    subscribe = f"""curl -X POST -H "Content-Type: {V2}" --data '{{"topics":["REST_PROXY_TEST"]}}' \
{instance}/subscription"""
    assert terminal(subscribe) == ""
    read: list[dict[str, object]] = []

    def all_came() -> bool:
        read.extend(json.loads(terminal(f'curl -X GET -H "Accept: {V2_JSON}" {instance}/records')))
        return len(read) >= 3

    wait_until(all_came)
    assert sorted((each["key"], each["value"]) for each in read) == [
        ("awalther", "bookshelves"),
        ("htanaka", "batteries"),
        ("jsmith", "alarm clock"),
    ]
    assert {"topic", "key", "value", "partition", "offset"} == set(read[0])
    groups = "curl http://localhost:8082/v3/clusters/{cluster_id}/consumer-groups"
    assert '"consumer_group_id":"rest_proxy_test_consumer"' in terminal(groups)
    assert terminal(f'curl -X DELETE -H "Content-Type: {V2}" {instance}') == ""


def test_avro_is_written_and_read_by_the_proxy(terminal: Terminal) -> None:
    """A union is shown with the branch that it is."""
    topic = terminal.stage.new_topic()
    schema = json.dumps(json.loads(sensor())["schema"])
    body = f"""{{"value_schema": {schema}, "records": [{{"value": {{"sensor_id":"mySensor","value":{{"long": 999}}}}}},\
{{"value": {{"sensor_id":"myMotor","value":{{"string": "starting"}}}}}}]}}"""
    write = f"curl -X POST -H 'Content-Type: {V2_AVRO}' -H 'Accept: {V2}' --data '{body}' localhost:8082/topics/{topic}"
    written = json.loads(terminal(write))
    assert [each["offset"] for each in written["offsets"]] == [0, 1]
    base = "http://localhost:8082/consumers/top_20_consumer"
    create = """{"name": "top_20_consumer", "format": "avro", "auto.offset.reset": "earliest"}"""
    terminal(f"curl -X POST  -H 'Content-Type: {V2}' --data '{create}' {base}")
    instance = f"{base}/instances/top_20_consumer"
    topics = f'{{"topics":["{topic}"]}}'
    assert terminal(f"curl -X POST -H 'Content-Type: {V2}' --data '{topics}' {instance}/subscription") == ""
    printed = ""

    def came() -> bool:
        nonlocal printed
        printed = terminal(f'curl -X GET -H "Accept: {V2_AVRO}" {instance}/records')
        return printed != "[]"

    wait_until(came)
    assert printed == (
        f'[{{"topic":"{topic}","key":null,"value":{{"sensor_id":"mySensor","value":{{"long":999}}}},"partition":0,'
        f'"offset":0}},{{"topic":"{topic}","key":null,"value":{{"sensor_id":"myMotor","value":{{"string":"starting"}}}},'
        '"partition":0,"offset":1}]'
    )
    assert terminal(f"curl -X DELETE -H 'Content-Type: {V2}' {instance}") == ""
