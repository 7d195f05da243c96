"""`barnabas connect`: starts a worker, and asks one over REST."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from barnabas.cli.errors import UsageError
from barnabas.cli.services.asking import authorization, tls_context
from barnabas.cli.services.connect_records import (
    RECORD_COMMANDS,
    add_record_commands,
    connector_file,
    run_record_command,
)
from barnabas.cli.services.foreground import (
    add_start_options,
    follow_parent,
    log_to_stderr,
    parse_overrides,
    tell_ready,
)

if TYPE_CHECKING:
    from barnabas.pipelines.connect.worker.herder import Herder

DEFAULT_URL = "http://localhost:8083"


def serve(
    path: str | None,
    overrides: Sequence[str],
    *,
    distributed: bool,
    files: Sequence[str] = (),
    ready_fd: int | None = None,
) -> int:
    from barnabas.client.errors import ClientError
    from barnabas.pipelines.connect.errors import ConnectError
    from barnabas.pipelines.connect.worker.herder import RestError
    from barnabas.pipelines.connect.worker.server import run as run_server
    from barnabas.pipelines.connect.worker.settings import WorkerSettings, load_properties
    from barnabas.web.server import PortTaken

    log_to_stderr()

    def ready(herder: Herder, port: int) -> None:
        tell_ready("Kafka Connect", herder.settings.advertised_host, port, ready_fd, herder.settings.scheme)

    try:
        properties = load_properties(path, os.environ, parse_overrides(overrides))
        settings = WorkerSettings.from_properties(properties, distributed=distributed)
        run_server(settings, [connector_file(each) for each in files], ready)
    except (ClientError, PortTaken, ConnectError, RestError) as error:
        raise UsageError(str(error)) from None
    return 0


def run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="barnabas connect", description="Connectors: a worker, and what it runs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    start = commands.add_parser("start", help="start a worker in the foreground")
    start.add_argument("file", nargs="?", metavar="worker.properties")
    start.add_argument("connectors", nargs="*", metavar="connector.properties", help="makes it a standalone worker")
    add_start_options(start)
    for name, text in ASKING.items():
        each = commands.add_parser(name, help=text)
        each.add_argument(
            "--url", default=os.environ.get("BARNABAS_CONNECT_URL", DEFAULT_URL), help="the worker's REST API"
        )
        each.add_argument("--user", "-u", help="for a worker that asks who one is")
        each.add_argument(
            "--password",
            "-p",
            default=os.environ.get("BARNABAS_CONNECT_PASSWORD"),
            help="the user's; BARNABAS_CONNECT_PASSWORD, or asked for, if it is not given",
        )
        each.add_argument("--ca", metavar="FILE", help="the certificates to trust, for https")
        each.add_argument("--config-file", metavar="FILE", help="ssl.* of this command, for https")
        if name == "create":
            each.add_argument("file", help="a .properties or .json file")
        elif name not in ("list", "plugins"):
            each.add_argument("name", help="the connector")
        if name == "offsets":
            each.add_argument("--reset", action="store_true", help="forget them; the connector must be stopped")
    add_record_commands(commands)
    options = parser.parse_args(arguments)
    if options.command in RECORD_COMMANDS:
        return run_record_command(options)
    if options.command == "start":
        follow_parent(options)
        distributed = not options.connectors
        return serve(
            options.file, options.override, distributed=distributed, files=options.connectors, ready_fd=options.ready_fd
        )
    return ask(options)


ASKING = {
    "create": "create or change a connector from a file",
    "list": "connectors with their states",
    "plugins": "what can be connected",
    "status": "a connector's state and its tasks'",
    "config": "a connector's settings",
    "pause": "stop reading, keep the place",
    "resume": "go on",
    "stop": "stop, so that offsets can be changed",
    "restart": "restart a connector and its failed tasks",
    "delete": "delete a connector",
    "offsets": "where a connector has come to",
    "logs": "what happened to its tasks since the worker started",
}


def ask(options: argparse.Namespace) -> int:
    url = options.url.rstrip("/")
    call = Caller(options)
    name = quote(getattr(options, "name", "") or "", safe="")
    command = options.command
    if command == "create":
        settings = connector_file(options.file)
        found = call("PUT", f"{url}/connectors/{quote(settings['name'], safe='')}/config", settings)
        print(f"{found['name']} is there, a {found['type']}")
    elif command == "list":
        for each, state in call("GET", f"{url}/connectors?expand=status").items():
            status = state.get("status", {})
            tasks = ", ".join(task["state"] for task in status.get("tasks", []))
            print(f"{each}  {status.get('connector', {}).get('state', 'UNASSIGNED')}  [{tasks}]")
    elif command == "plugins":
        for each in call("GET", f"{url}/connector-plugins"):
            print(f"{each['type']:7} {each['class']}")
    elif command in ("status", "config"):
        print(json.dumps(call("GET", f"{url}/connectors/{name}/{command}"), indent=2, ensure_ascii=False))
    elif command == "logs":
        for line in call("GET", f"{url}/connectors/{name}/logs")[options.name]:
            print(line)
    elif command in ("pause", "resume", "stop"):
        call("PUT", f"{url}/connectors/{name}/{command}")
    elif command == "restart":
        call("POST", f"{url}/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
    elif command == "delete":
        call("DELETE", f"{url}/connectors/{name}")
    elif options.reset:
        print(call("DELETE", f"{url}/connectors/{name}/offsets")["message"])
    else:
        for each in call("GET", f"{url}/connectors/{name}/offsets")["offsets"]:
            print(f"{json.dumps(each['partition'])}  {json.dumps(each['offset'])}")
    return 0


class Caller:
    """Asks a worker, as who the options say."""

    def __init__(self, options: argparse.Namespace) -> None:
        password = options.password if options.user is not None else None
        self._headers = {"content-type": "application/json", **authorization(options.user, password)}
        self._tls: ssl.SSLContext | None = None
        if options.url.lower().startswith("https://"):
            from barnabas.client.settings import read_properties

            properties = read_properties(options.config_file) if options.config_file is not None else {}
            self._tls = tls_context(properties, options.ca)

    def __call__(self, method: str, url: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            try:
                message = json.loads(error.read())["message"]
            except (ValueError, KeyError):
                message = str(error)
            raise UsageError(message) from None
        except OSError as error:
            raise UsageError(f"nobody answers at {url}: {getattr(error, 'reason', error)}") from None
