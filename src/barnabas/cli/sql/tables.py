"""Answers of the server as text: tables as people know them from ksqlDB's command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

Tree = dict[str, Any]
CELL_MIN = 5


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [[text(one) for one in row] for row in rows]
    widths = [max([len(header), *(len(row[at]) for row in cells)]) for at, header in enumerate(headers)]

    def line(values: Sequence[str]) -> str:
        return " " + " | ".join(value.ljust(width) for value, width in zip(values, widths, strict=True)) + " "

    rule = "-" * len(line(headers))
    return "\n".join(["", line(headers), rule, *(line(row) for row in cells), rule])


def one_line(statement: str) -> str:
    """A statement of many lines in a cell."""
    return " ".join(statement.split())


def text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cell_width(screen: int, columns: int) -> int:
    return max(screen // max(columns, 1) - 2, CELL_MIN)


def head(names: Sequence[str], screen: int) -> str:
    rule = "+" + "+".join("-" * cell_width(screen, len(names)) for _ in names) + "+"
    return "\n".join([rule, row(names, screen), rule])


def row(values: Sequence[Any], screen: int) -> str:
    """Columns share the width of the screen; what is longer goes on in the next line."""
    width = cell_width(screen, len(values))
    pieces = []
    for value in values:
        shown = cell(value)
        pieces.append([shown[at : at + width] for at in range(0, max(len(shown), 1), width)] or [""])
    height = max(map(len, pieces))
    lines = [
        "|" + "|".join((one[at] if at < len(one) else "").ljust(width) for one in pieces) + "|" for at in range(height)
    ]
    return "\n".join(lines)


def cell(value: Any) -> str:
    """Structs and maps as {A=1, B=x}, as Java prints them."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}={cell(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(cell, value)) + "]"
    return text(value)


def type_text(schema: Tree) -> str:
    kind = schema["type"]
    if kind == "ARRAY":
        return f"ARRAY<{type_text(schema['memberSchema'])}>"
    if kind == "MAP":
        return f"MAP<STRING, {type_text(schema['memberSchema'])}>"
    if kind == "STRUCT":
        inner = ", ".join(f"{one['name']} {type_text(one['schema'])}" for one in schema["fields"])
        return f"STRUCT<{inner}>"
    if kind == "DECIMAL":
        return f"DECIMAL({schema['parameters']['precision']}, {schema['parameters']['scale']})"
    return "VARCHAR(STRING)" if kind == "STRING" else str(kind)


def fields_table(fields: list[Tree], source_type: str = "", window: str | None = None) -> str:
    def shown(field: Tree) -> str:
        key = "  (primary key)" if source_type == "TABLE" else "  (key)"
        mark = {"KEY": key if window is None else f"{key} (Window type: {window})", "HEADER": "  (headers)"}
        return type_text(field["schema"]) + mark.get(field.get("type", ""), "")

    return table(["Field", "Type"], [[one["name"], shown(one)] for one in fields])


def source(described: Tree) -> str:
    lines = ["", f"{'Name':20} : {described['name']}"]
    if described["extended"]:
        lines += [
            f"{'Type':20} : {described['type']}",
            f"{'Timestamp field':20} : {described['timestamp'] or 'Not set - using <ROWTIME>'}",
            f"{'Key format':20} : {described['keyFormat']}",
            f"{'Value format':20} : {described['valueFormat']}",
            f"{'Kafka topic':20} : {described['topic']} (partitions: {described['partitions']}, "
            f"replication: {described['replication']})",
            f"{'Statement':20} : {described['statement']}",
        ]
    lines.append(fields_table(described["fields"], described["type"], described.get("windowType")).lstrip("\n"))
    for title, queries in (("read from", described["readQueries"]), ("write into", described["writeQueries"])):
        if queries and described["extended"]:
            which = "stream" if described["type"] == "STREAM" else "table"
            lines += ["", f"Queries that {title} this {which.upper()}", "-" * 35]
            lines += [f"{one['id']} ({one['state']}) : {one_line(one['queryString'])}" for one in queries]
    if described["extended"]:
        lines += ["", "Local runtime statistics", "------------------------"]
        lines += [described["statistics"], described["errorStats"]]
    else:
        lines.append("For runtime statistics and query details run: DESCRIBE <Stream,Table> EXTENDED;")
    return "\n".join(lines)


def query(described: Tree) -> str:
    lines = ["", f"{'ID':20} : {described['id']}", f"{'SQL':20} : {described['statementText']}"]
    lines.append(fields_table(described["fields"], window=described.get("windowType")).lstrip("\n"))
    lines += ["", "Sources that this query reads from: ", "-----------------------------------"]
    lines += list(described["sources"])
    if described["sinks"]:
        lines += ["", "Sinks that this query writes to: ", "-----------------------------------", *described["sinks"]]
    lines += ["", "Execution plan      ", "--------------      ", described["executionPlan"]]
    lines += ["", "Processing topology ", "------------------- ", described["topology"]]
    lines += [f"Error: {one['errorMessage']}" for one in described.get("queryErrors", [])]
    if (trial := described.get("dryRun")) is not None:
        lines += ["", *dry_run(trial)]
    return "\n".join(lines)


def dry_run(trial: Tree) -> list[str]:
    """What EXPLAIN ... ON LAST found out."""
    counts = f"{trial['records']} records gave {trial['rows']} rows; {trial['rejected']} could not be read"
    cost = f"{trial['milliseconds']} ms, {trial['recordsPerSecond']} records a second"
    lines = ["Dry run", "-------", f"{counts}. {cost}."]
    if trial["firstRows"]:
        lines.append(table(trial["columns"], [[cell(one) for one in row] for row in trial["firstRows"]]))
    return lines + [f"Not read: {reason}" for reason in trial["firstRejects"]]


def function(described: Tree) -> str:
    lines = [
        "",
        f"{'Name':12}: {described['name']}",
        f"{'Type':12}: {described['type'].capitalize()}",
        f"{'Overview':12}: {described['description']}",
        f"{'Variations':12}: ",
    ]
    lines += [f"\n\tVariation   : {one['signature']}" for one in described["functions"]]
    return "\n".join(lines)


def listed(name: str, title: str) -> Callable[[Tree], str]:
    def shown(answer: Tree) -> str:
        rows = [
            [one["name"], one["topic"], one["keyFormat"], one["valueFormat"], one["isWindowed"]] for one in answer[name]
        ]
        return table([f"{title} Name", "Kafka Topic", "Key Format", "Value Format", "Windowed"], rows)

    return shown


def topics(answer: Tree) -> str:
    rows = [
        [one["name"], len(one["replicaInfo"]), max(one["replicaInfo"], default=0)]
        for one in sorted(answer["topics"], key=lambda one: one["name"])
    ]
    return table(["Kafka Topic", "Partitions", "Partition Replicas"], rows)


def queries(answer: Tree) -> str:
    rows = [
        [
            *(one[name] for name in ("id", "queryType", "state")),
            one["sinks"][0],
            one["sinkKafkaTopics"][0],
            one_line(one["queryString"]),
        ]
        for one in answer["queries"]
    ]
    shown = table(["Query ID", "Query Type", "Status", "Sink Name", "Sink Kafka Topic", "Query String"], rows)
    return shown + "\nFor detailed information on a Query run: EXPLAIN <Query ID>;"


SHOWN: dict[str, Callable[[Tree], str]] = {
    "currentStatus": lambda one: table(["Message"], [[one["commandStatus"]["message"]]]),
    "streams": listed("streams", "Stream"),
    "tables": listed("tables", "Table"),
    "kafka_topics": topics,
    "queries": queries,
    "sourceDescription": lambda one: source(one["sourceDescription"]),
    "source_descriptions": lambda one: "\n".join(map(source, one["sourceDescriptions"])),
    "queryDescription": lambda one: query(one["queryDescription"]),
    "describe_function": function,
    "function_names": lambda one: table(
        ["Function Name", "Category"], [[each["name"], each["category"]] for each in one["functions"]]
    ),
    "properties": lambda one: table(
        ["Property", "Scope", "Effective Value"],
        [[each["name"], each["scope"], each["value"]] for each in one["properties"]],
    ),
    "type_list": lambda one: table(
        ["Type Name", "Schema"], [[name, type_text(kind)] for name, kind in one["types"].items()]
    ),
    "connector_list": lambda one: table(
        ["Connector Name", "Type", "Class", "Status"],
        [[each["name"], each["type"], each["className"], each["state"]] for each in one["connectors"]],
    ),
    "connector_info": lambda one: table(["Message"], [[f"Created connector {one['info'].get('name', '')}"]]),
    "drop_connector": lambda one: table(["Message"], [[f'Dropped connector "{one["connectorName"]}"']]),
    "assert_topic": lambda one: table(["Message"], [[f"Topic {'exists' if one['exists'] else 'does not exist'}."]]),
    "assert_schema": lambda one: table(["Message"], [[f"Schema {'exists' if one['exists'] else 'does not exist'}."]]),
}


def answer_text(answer: Tree) -> str:
    shown = SHOWN.get(answer.get("@type", ""))
    return json.dumps(answer, indent=2, ensure_ascii=False) if shown is None else shown(answer)
