"""SHOW, DESCRIBE, EXPLAIN, ASSERT and connectors: statements that change nothing here."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barnabas.client.security import SecuritySettings
from barnabas.client.settings import read_properties
from barnabas.pipelines.sql.errors import SqlError
from barnabas.pipelines.sql.language import tree
from barnabas.pipelines.sql.server import answers
from barnabas.pipelines.sql.server.counts import Counts
from barnabas.pipelines.sql.server.trials import tried

if TYPE_CHECKING:
    from barnabas.pipelines.sql.server.service import SqlService

Tree = dict[str, Any]
INTERNAL = ("_", "__")
LOOK_S = 0.1
CONNECT_LOGIN = "ksql.connect.basic.auth.credentials."


class Describing:
    def __init__(self, service: SqlService) -> None:
        self._service = service

    def answer(self, statement: tree.Statement, session: dict[str, Any]) -> Tree:
        if isinstance(statement, tree.Show):
            return self._show(statement, session)
        if isinstance(statement, tree.Describe):
            return self._describe(statement)
        if isinstance(statement, tree.Explain):
            return self._explain(statement)
        if isinstance(statement, tree.Assert):
            return self._assert(statement)
        if isinstance(statement, (tree.CreateConnector, tree.DropConnector)):
            return self._connector(statement)
        raise SqlError(f"{type(statement).__name__} is no statement for a server.")

    def _show(self, statement: tree.Show, session: dict[str, Any]) -> Tree:
        service, what = self._service, statement.what
        sources = sorted(service.engine.metastore.sources.values(), key=lambda one: one.name)
        if what in ("STREAMS", "TABLES"):
            wanted = [one for one in sources if one.table == (what == "TABLES")]
            if statement.extended:
                described = [self._source(one.name, extended=True) for one in wanted]
                return {"@type": "source_descriptions", "sourceDescriptions": described}
            name = what.lower()
            return {"@type": name, name: [answers.source_tree(one) for one in wanted]}
        if what == "TOPICS":
            found = [
                {"name": name, "replicaInfo": [replicas] * partitions}
                for name, partitions, replicas in service.kafka.topics()
                if statement.everything or not name.startswith(INTERNAL)
            ]
            return {"@type": "kafka_topics", "topics": found}
        if what == "QUERIES":
            known = service.engine.queries  # those that were terminated may still be stopping
            entries = [one for name, one in list(service.queries.entries.items()) if name in known]
            return {"@type": "queries", "queries": [answers.query_tree(one) for one in entries]}
        if what == "FUNCTIONS":
            return {"@type": "function_names", "functions": answers.function_list()}
        if what == "TYPES":
            types = {name: answers.type_tree(kind) for name, kind in service.engine.metastore.types.items()}
            return {"@type": "type_list", "types": types}
        if what == "PROPERTIES":
            return {"@type": "properties", "properties": self._properties(session)}
        if what == "VARIABLES":
            return {"@type": "variables", "variables": []}
        return self._connectors(what)

    def _properties(self, session: dict[str, Any]) -> list[Tree]:
        merged = {**self._service.engine.settings, **session}
        secret = ("password", "jaas", "secret", "token")
        return [
            {
                "name": name,
                "scope": "KSQL" if name.startswith("ksql.") else "KAFKA STREAMS",
                "value": "[hidden]" if any(word in name for word in secret) else str(value),
                "editable": True,
            }
            for name, value in sorted(merged.items())
        ]

    def _source(self, name: str, *, extended: bool) -> Tree:
        service = self._service
        source = service.engine.metastore.source(name)
        entries = service.queries.entries
        metastore = service.engine.metastore
        reading, writing = (
            [one for one in sorted(ids.get(name, ())) if one in entries]
            for ids in (metastore.readers, metastore.writers)
        )
        found = next((one for one in service.kafka.topics() if one[0] == source.topic), (source.topic, 0, 0))
        readers, writers = ([answers.query_tree(entries[one]) for one in ids] for ids in (reading, writing))
        counts = None
        if extended:
            read, written = (sum(map(service.queries.counts, ids), Counts()) for ids in (reading, writing))
            counts = (read, written)
        return answers.described_source(source, readers, writers, found[1], found[2], counts)

    def _describe(self, statement: tree.Describe) -> Tree:
        if statement.what == "FUNCTION":
            return {"@type": "describe_function", **answers.described_function(statement.name)}
        if statement.what == "CONNECTOR":
            return {
                "@type": "connector_description",
                **self._connect("GET", f"/connectors/{quote(statement.name, safe='')}/status"),
            }
        if statement.what in ("STREAMS", "TABLES"):
            return self._show(tree.Show(statement.what, extended=True), {})
        described = self._source(statement.name, extended=statement.extended)
        return {"@type": "sourceDescription", "sourceDescription": described}

    def _explain(self, statement: tree.Explain) -> Tree:
        if statement.query_id is not None:
            entries = self._service.queries.entries
            found = next((one for one in entries if one.upper() == statement.query_id.upper()), None)
            if found is None:
                raise SqlError(
                    f"Query with id:{statement.query_id} does not exist, use SHOW QUERIES to view the full set."
                )
            return {"@type": "queryDescription", "queryDescription": answers.query_description(entries[found])}
        assert statement.statement is not None
        planned = self._service.planned(statement.statement)
        tree_: Tree = {
            "id": "",
            "statementText": statement.text,
            "windowType": planned.window.kind if planned.window else None,
            "fields": [answers.field_tree(one) for one in planned.columns],
            "sources": list(planned.sources),
            "sinks": [],
            "topology": planned.topology.describe(),
            "executionPlan": answers.execution_plan(planned.notes),
            "overriddenProperties": {},
            "queryErrors": [],
        }
        if statement.last is not None:
            tree_["dryRun"] = tried(self._service, statement.statement, statement.last)
        return {"@type": "queryDescription", "queryDescription": tree_}

    def _assert(self, statement: tree.Assert) -> Tree:
        deadline = time.monotonic() + statement.timeout_ms / 1000
        while True:
            problem = self._problem(statement)
            if problem is None:
                kind = "assert_topic" if statement.what == "TOPIC" else "assert_schema"
                return {"@type": kind, "exists": statement.exists}
            if time.monotonic() >= deadline:
                raise SqlError(problem)
            time.sleep(LOOK_S)

    def _problem(self, statement: tree.Assert) -> str | None:
        if statement.what == "SCHEMA":
            there, name = self._schema_exists(statement.properties), str(statement.properties)
        else:
            name = str(statement.properties["TOPIC"])
            partitions = self._service.kafka.partitions(name)
            there = partitions > 0
            wanted = statement.properties.get("PARTITIONS")
            if there and statement.exists and wanted is not None and int(wanted) != partitions:
                return f"Mismatched configuration for topic {name}: expected {wanted} partitions, got {partitions}"
        if there == statement.exists:
            return None
        what = statement.what.capitalize()
        return f"{what} {name} does not exist." if statement.exists else f"{what} {name} exists."

    def _schema_exists(self, properties: Tree) -> bool:
        from barnabas.client.serdes import RegistryRefused, open_registry

        url = self._service.engine.settings.get("ksql.schema.registry.url")
        if not url:
            raise SqlError("ASSERT SCHEMA needs a schema registry: set ksql.schema.registry.url.")
        registry = open_registry(str(url))
        try:
            if "ID" in properties:
                registry.by_id(int(properties["ID"]))
            if "SUBJECT" in properties:
                registry.latest(str(properties["SUBJECT"]))
            return True
        except RegistryRefused:
            return False
        finally:
            registry.close()

    def _connector(self, statement: tree.CreateConnector | tree.DropConnector) -> Tree:
        known = self._connect("GET", "/connectors")
        if isinstance(statement, tree.DropConnector):
            if statement.if_exists and statement.name not in known:
                return {"@type": "warning_entity", "message": f"Connector '{statement.name}' does not exist."}
            self._connect("DELETE", _connector_path(statement.name))
            return {"@type": "drop_connector", "connectorName": statement.name}
        if statement.if_not_exists and statement.name in known:
            return {"@type": "warning_entity", "message": f"Connector {statement.name} already exists"}
        config = {name.lower() if name.isupper() else name: str(value) for name, value in statement.properties.items()}
        made = self._connect("POST", "/connectors", {"name": statement.name, "config": config})
        return {"@type": "connector_info", "info": made}

    def _connectors(self, what: str) -> Tree:
        if what == "CONNECTOR PLUGINS":
            return {"@type": "connector_plugins_list", "connectorsPlugins": self._connect("GET", "/connector-plugins")}
        found = self._connect("GET", "/connectors?expand=info&expand=status")
        listed = [_listed(name, each.get("info", {}), each.get("status", {})) for name, each in found.items()]
        kind = what.removesuffix("CONNECTORS").strip().lower()
        return {"@type": "connector_list", "connectors": [each for each in listed if kind in ("", each["type"])]}

    def _connect_login(self) -> dict[str, str]:
        """Of `ksql.connect.basic.auth.credentials.source=FILE`: a file with username and password."""
        properties = self._service.settings.properties
        if properties.get(f"{CONNECT_LOGIN}source", "NONE").strip().upper() != "FILE":
            return {}
        found = read_properties(properties.get(f"{CONNECT_LOGIN}file", ""))
        given = f"{found.get('username', '')}:{found.get('password', '')}"
        return {"authorization": "Basic " + base64.b64encode(given.encode()).decode()}

    def _connect(self, method: str, path: str, body: Any = None) -> Any:
        """Connect's REST API."""
        import json
        import urllib.error
        import urllib.request

        url = str(self._service.engine.settings.get("ksql.connect.url") or "http://localhost:8083").rstrip("/")
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **self._connect_login()}
        tls = None
        if url.lower().startswith("https://"):
            given = {key: value for key, value in self._service.settings.properties.items() if key.startswith("ssl.")}
            tls = SecuritySettings.from_properties(given | {"security.protocol": "SSL"}).ssl_context()
        request = urllib.request.Request(url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=tls) as response:
                text = response.read()
                return json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            raise SqlError(f"Connect refused: {error.read().decode('utf-8', 'replace')}") from None
        except (urllib.error.URLError, OSError) as error:
            raise SqlError(f"Connect at {url} can't be reached: {error}") from None


def _connector_path(name: str) -> str:
    """A name is one part of the path, whatever is in it."""
    return f"/connectors/{quote(name, safe='')}"


def _listed(name: str, info: Tree, status: Tree) -> Tree:
    """A line of SHOW CONNECTORS; the state tells how many tasks run."""
    state = status.get("connector", {}).get("state", "")
    tasks = [each["state"] for each in status.get("tasks", [])]
    if state == "RUNNING" and tasks:
        running = tasks.count("RUNNING")
        state = f"{'RUNNING' if running == len(tasks) else 'WARNING'} ({running}/{len(tasks)} tasks RUNNING)"
    class_name = info.get("config", {}).get("connector.class", "")
    return {"name": name, "type": info.get("type", ""), "className": class_name, "state": state}
