"""`barnabas connect dry-run` and `replay`: records of a connector before it is created, and dead letters sent again."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from barnabas.cli.errors import UsageError

RECORD_COMMANDS = ("dry-run", "replay")


def add_record_commands(commands: Any) -> None:
    dry = commands.add_parser("dry-run", help="show what a connector would write, of real records, and write nothing")
    dry.add_argument("file", help="a .properties or .json file with the connector's settings")
    dry.add_argument("--records", type=int, default=10, metavar="N", help="how many (10)")
    again = commands.add_parser("replay", help="send dead letters to the topics they came from, each once")
    again.add_argument("topic", help="the topic with the dead letters")
    again.add_argument("--to", metavar="TOPIC", help="where to, instead of where they came from")
    for each in (dry, again):
        each.add_argument("--worker", required=True, metavar="worker.properties", help="cluster and converters")


def run_record_command(options: argparse.Namespace) -> int:
    from barnabas.client.errors import ClientError
    from barnabas.pipelines.connect.errors import ConnectError
    from barnabas.pipelines.connect.worker.settings import WorkerSettings, load_properties

    try:
        properties = load_properties(options.worker, os.environ, {})
        worker = WorkerSettings.from_properties(properties, distributed=False)
        return dry_run(options, worker) if options.command == "dry-run" else replay_letters(options, worker)
    except (ClientError, ConnectError) as error:
        raise UsageError(str(error)) from None


def dry_run(options: argparse.Namespace, worker: Any) -> int:
    """1 if a record would fail."""
    from barnabas.pipelines.connect.plugins import need
    from barnabas.pipelines.connect.rehearsal import rehearse
    from barnabas.pipelines.connect.worker.providers import Providers
    from barnabas.pipelines.connect.worker.settings import client_properties
    from barnabas.pipelines.connect.worker.validation import validate

    given = connector_file(options.file)
    settings = Providers(worker.properties).resolve(given)
    if "connector.class" not in settings:
        raise UsageError(f"{options.file} has no connector.class.")
    plugin = need(settings["connector.class"], "source", "sink", setting="connector.class")
    checked = validate(plugin, settings, worker.defaults(), worker)
    if errors := [text for each in checked["configs"] for text in each["value"]["errors"]]:
        raise UsageError("; ".join(errors))
    failed = count = 0
    client = client_properties(worker.properties)
    for each in rehearse(worker.with_defaults(settings), client, options.records):
        count += 1
        if each.error is not None:
            failed += 1
            print(f"{each.place}  FAILS: {each.error}")
        elif each.key is None and each.value is None:
            print(f"{each.place}  nothing: dropped, or a tombstone without a key")
        else:
            print(f"{each.place}  {'null' if each.key is None else each.key}  {each.value or 'null'}")
    print(f"{count} records, {failed} would fail; nothing was written")
    return 1 if failed else 0


def replay_letters(options: argparse.Namespace, worker: Any) -> int:
    from barnabas.pipelines.connect.replay import replay

    for topic, count in replay(worker.kafka, options.topic, to=options.to).items() or {"": 0}.items():
        print(f"{count} letters sent to {topic}" if topic else "no letters to send")
    return 0


def connector_file(path: str) -> dict[str, str]:
    """A .properties file, or JSON: the settings, or an object with name and config."""
    from barnabas.client.settings import read_properties

    if not path.endswith(".json"):
        found: dict[str, Any] = dict(read_properties(path))
    else:
        try:
            found = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
        if isinstance(found, dict) and isinstance(found.get("config"), dict):
            found = {"name": found.get("name")} | found["config"]
    if not isinstance(found, dict) or not found.get("name"):
        raise UsageError(f"{path} has no name for its connector.")
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in found.items()}
