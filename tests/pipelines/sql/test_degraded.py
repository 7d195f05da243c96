"""A damaged command topic: the server starts, says what to do, and serves what was before the damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.client.producer import Producer
from barnabas.client.settings import ClientSettings
from barnabas.testing import Node
from tests.support.sql_server import SqlServer

pytestmark = pytest.mark.timeout(300)  # a server starts twice
COMMANDS = "_confluent-ksql-default__command_topic"


def test_a_server_with_a_damaged_command_topic_serves_what_was_before_the_damage(tmp_path: Path) -> None:
    with Node() as node:
        server = SqlServer(node.bootstrap_servers, tmp_path).start()
        server.run("CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")
        server.run("INSERT INTO s VALUES ('a', 1);")
        server.stop()
        after = {"statement": "CREATE STREAM after (v INT) WITH (kafka_topic='s', value_format='JSON');"}
        producer = Producer(ClientSettings.from_properties({}, bootstrap_servers=node.bootstrap_servers))
        for command in (b"no command", json.dumps(after).encode()):
            producer.send(COMMANDS, command, key=b"x", partition=0).result(60)
        producer.close(5)
        server.start()
        assert [one["name"] for one in server.run("SHOW STREAMS;")[0]["streams"]] == ["S"]
        assert server.rows("SELECT * FROM s;") == [["a", 1]]
        assert json.loads(server.ask("/info")[1])["KsqlServerInfo"]["serverStatus"] == "ERROR"
        status, text = server.ask("/healthcheck")
        assert (status, json.loads(text)["details"]["commandRunner"]) == (503, {"isHealthy": False})
        status, text = server.ask("/ksql", {"ksql": "CREATE STREAM z AS SELECT * FROM s;"})
        assert status == 400
        assert json.loads(text)["message"] == (
            "The server takes no statements that define anything: record 1 of the command topic "
            f"{COMMANDS} is no command (Expecting value: line 1 column 1 (char 0)). The queries before it run. Restore "
            "the topic from a backup, or start with another ksql.service.id."
        )
        server.stop()


def test_a_command_topic_that_is_deleted_under_a_server_stops_definitions_and_nothing_else(tmp_path: Path) -> None:
    with Node() as node:
        server = SqlServer(node.bootstrap_servers, tmp_path).start()
        server.run("CREATE STREAM s (id STRING KEY, v INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")
        assert main(["topics", "--bootstrap-server", node.bootstrap_servers, "--delete", "--topic", COMMANDS]) == 0
        status, text = server.ask("/ksql", {"ksql": "CREATE STREAM z AS SELECT * FROM s;"})
        assert status == 400
        assert json.loads(text)["message"] == (
            f"The server takes no statements that define anything: the command topic {COMMANDS} was deleted, or cut "
            "off, while this server ran. Its queries run on until it stops. Restore the topic from a backup, or start "
            "with another ksql.service.id."
        )
        server.run("INSERT INTO s VALUES ('a', 1);")
        assert server.rows("SELECT * FROM s;") == [["a", 1]]
        server.stop()
