"""A registry as serializers see it: what never changes is asked once and kept.

An id or a guid means one schema for ever, and so does a version of a subject. The latest version of a subject is asked
again when it is older than `latest.cache.ttl.sec`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from barnabas.client.per_process import PerProcess
from barnabas.client.properties import integer
from barnabas.client.schemas import ResolvedReference
from barnabas.client.serdes.errors import SerdeError
from barnabas.client.serdes.schema import RegisteredSchema, Schema, schema_from
from barnabas.client.serdes.transport import MOCK, HttpTransport, RegistrySettings, show_urls

REFERENCES_MAX = 1_000
LATEST_TTL_S = 60
CACHED_MAX = 10_000
T = TypeVar("T")


class Transport(Protocol):
    def ask(self, method: str, path: str, body: Any = None) -> Any: ...

    def close(self) -> None: ...


class Registry:
    """Blocking; several threads may use one."""

    def __init__(self, transport: Transport, *, url: str, latest_ttl_s: float = LATEST_TTL_S) -> None:
        self.url = url
        self._transport = transport
        self._latest_ttl_s = latest_ttl_s
        self._kept: dict[Hashable, Any] = {}
        self._latest: dict[str, tuple[float, RegisteredSchema]] = {}
        self._lock = threading.Lock()

    def by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """`subject` names the context, where that is not the default one."""
        context = f"?subject={_quoted(subject)}" if subject and subject.startswith(":.") else ""

        def ask() -> RegisteredSchema:
            tree = self.ask("GET", f"/schemas/ids/{schema_id}{context}")
            return RegisteredSchema(schema_id, schema_from(tree), tree.get("guid"))

        return self._once(("id", schema_id, context), ask)

    def by_guid(self, guid: str) -> RegisteredSchema:
        def ask() -> RegisteredSchema:
            return RegisteredSchema(-1, schema_from(self.ask("GET", f"/schemas/guids/{_quoted(guid)}")), guid)

        return self._once(("guid", guid), ask)

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        query = "?normalize=true" if normalize else ""

        def ask() -> RegisteredSchema:
            tree = self.ask("POST", f"/subjects/{_quoted(subject)}/versions{query}", schema.tree())
            found = RegisteredSchema(tree["id"], schema, tree.get("guid"), subject, tree.get("version"))
            self._latest.pop(subject, None)
            return found

        return self._once(("register", subject, schema, normalize), ask)

    def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema:
        """The version of a subject that is this schema; nothing is registered."""
        query = "?normalize=true" if normalize else ""

        def ask() -> RegisteredSchema:
            tree = self.ask("POST", f"/subjects/{_quoted(subject)}{query}", schema.tree())
            return RegisteredSchema(tree["id"], schema, tree.get("guid"), subject, tree.get("version"))

        return self._once(("lookup", subject, schema, normalize), ask)

    def version(self, subject: str, version: int) -> RegisteredSchema:
        return self._once(("version", subject, version), lambda: self._version(subject, str(version)))

    def latest(self, subject: str) -> RegisteredSchema:
        known = self._latest.get(subject)
        if known is None or time.monotonic() > known[0]:
            known = time.monotonic() + self._latest_ttl_s, self._version(subject, "latest")
            self._latest[subject] = known
        return known[1]

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        tree = self.ask("GET", f"/subjects/{_quoted(subject)}/versions/{version}")
        return RegisteredSchema(tree["id"], schema_from(tree), tree.get("guid"), subject, tree["version"])

    def versions(self, subject: str) -> list[int]:
        return [int(each) for each in self.ask("GET", f"/subjects/{_quoted(subject)}/versions")]

    def subjects(self) -> list[str]:
        return [str(each) for each in self.ask("GET", "/subjects")]

    def resolved(self, schema: Schema) -> list[ResolvedReference]:
        """What a schema refers to, and what that refers to: each before the one that uses it."""
        found: dict[str, ResolvedReference] = {}

        def follow(each: Schema, depth: int) -> None:
            for reference in each.references:
                if reference.name in found:
                    continue
                if depth > REFERENCES_MAX or len(found) > REFERENCES_MAX:
                    raise SerdeError("The schema has too many references.")
                other = self.version(reference.subject, reference.version).schema
                follow(other, depth + 1)
                found[reference.name] = ResolvedReference(reference.name, other.text)

        try:
            follow(schema, 0)
        except RecursionError:
            raise SerdeError("The schema has too many references.") from None
        return list(found.values())

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Any question of the API. Raises RegistryRefused and RegistryUnreachable."""
        return self._transport.ask(method, path, body)

    def close(self) -> None:
        self._transport.close()

    def _once(self, key: Hashable, ask: Callable[[], T]) -> T:
        known: T | None = self._kept.get(key)
        if known is None:
            known = ask()
            with self._lock:
                if len(self._kept) >= CACHED_MAX:
                    self._kept.clear()  # it can be asked for again
                self._kept[key] = known
        return known


def open_registry(url: str | None = None, properties: Mapping[str, str] | None = None) -> Registry:
    """By its address or by Confluent's properties; `mock://name` is one in this process, the same for one name."""
    settings = RegistrySettings.from_properties(properties or {}, url)
    ttl_s = integer(properties or {}, "latest.cache.ttl.sec", LATEST_TTL_S, least=-1)
    transport: Transport
    if settings.urls[0].startswith(MOCK):
        from barnabas.client.serdes.mock import mock_transport

        transport = mock_transport(settings.urls[0].removeprefix(MOCK))
    else:
        transport = HttpTransport(settings)
    latest_ttl_s = float("inf") if ttl_s < 0 else ttl_s
    return Registry(transport, url=show_urls(settings.urls), latest_ttl_s=latest_ttl_s)


_shared: PerProcess[Registry] = PerProcess()


def shared_registry(url: str, properties: Mapping[str, str] | None = None) -> Registry:
    """One for each process: what tasks on executors use, which know a registry by its address alone."""
    if url.startswith("mock://"):
        return open_registry(url, properties)  # it is in this process, and gone when its test ends
    key = url, tuple(sorted((properties or {}).items()))
    return _shared.get(key, lambda: open_registry(url, properties))


def _quoted(text: str) -> str:
    return quote(text, safe="")
