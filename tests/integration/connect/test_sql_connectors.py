"""Connectors made, shown and dropped by SQL, at a worker that runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language.statements import parse_statement
from barnabas.pipelines.sql.server.describing import Describing
from tests.support.waiting import wait_until

Worker = Any


def test_the_story_of_a_connector_in_sql(worker: Worker, tmp_path: Path) -> None:
    """Its database is away, so that it needs no Spark."""
    engine = SimpleNamespace(settings={"ksql.connect.url": worker.url}, metastore=SimpleNamespace(sources={}))
    service: Any = SimpleNamespace(engine=engine, settings=SimpleNamespace(properties={}))
    sql = Describing(service)

    def ask(text: str) -> Any:
        return sql.answer(parse_statement(text), {})

    create = f"""CREATE SOURCE CONNECTOR IF NOT EXISTS `persons` WITH ('connector.class' = 'JdbcSource',
        'connection.url' = 'jdbc:sqlite:{tmp_path}/nowhere/x.db', 'mode' = 'bulk', 'topic.prefix' = 'sql-');"""
    made = ask(create)
    assert (made["@type"], made["info"]["type"], made["info"]["name"]) == ("connector_info", "source", "persons")
    assert made["info"]["config"]["topic.prefix"] == "sql-"
    assert ask(create) == {"@type": "warning_entity", "message": "Connector persons already exists"}

    def listed(what: str) -> list[Any]:
        found = ask(f"SHOW {what};")["connectors"]
        return [each for each in found if each["name"] == "persons"]

    line = {"name": "persons", "type": "source", "className": "JdbcSource", "state": "RUNNING"}
    wait_until(lambda: listed("CONNECTORS") == [line], "it is listed")
    assert (listed("SOURCE CONNECTORS"), listed("SINK CONNECTORS")) == ([line], [])
    assert ask("DESCRIBE CONNECTOR `persons`;")["connector"]["state"] == "RUNNING"
    assert ask("DROP CONNECTOR `persons`;") == {"@type": "drop_connector", "connectorName": "persons"}
    assert listed("CONNECTORS") == []
    assert ask("DROP CONNECTOR IF EXISTS `persons`;")["@type"] == "warning_entity"
    with pytest.raises(SqlError, match="is FileStreamSourceConnector meant"):
        ask("CREATE SOURCE CONNECTOR x WITH ('connector.class' = 'FileStreamSorce', 'topic' = 't');")
