"""A registry without a server, for tests: `mock://name` is the same one for every serializer of this process.

It answers what serializers ask. Schemas are checked and put into canonical form by the code of the real registry, and
refused where they cannot read the version before (BACKWARD), unless `PUT /config` says NONE.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from typing import Any
from urllib.parse import unquote

from barnabas.client.schemas import InvalidSchema, ParsedSchema, ResolvedReference, parse_schema
from barnabas.client.serdes.errors import RegistryRefused
from barnabas.client.serdes.schema import Schema, schema_from

Tree = dict[str, Any]


class MockRegistry:
    def __init__(self) -> None:
        self._subjects: dict[str, list[Tree]] = {}
        self._ids: dict[tuple[str, str], int] = {}  # by type and canonical text
        self._level = "BACKWARD"
        self._lock = threading.RLock()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        segments = [unquote(each) for each in path.partition("?")[0].split("/") if each]
        with self._lock:
            match method, segments:
                case "GET", ["subjects"]:
                    return sorted(self._subjects)
                case "POST", ["subjects", subject, "versions"]:
                    return self._register(subject, schema_from(body))
                case "POST", ["subjects", subject]:
                    return self._lookup(subject, schema_from(body))
                case "GET", ["subjects", subject, "versions"]:
                    return [each["version"] for each in self._of(subject)]
                case "GET", ["subjects", subject, "versions", version]:
                    return self._version(subject, version)
                case "GET", ["schemas", "ids", schema_id]:
                    return self._find("id", int(schema_id), f"Schema {schema_id} not found")
                case "GET", ["schemas", "guids", guid]:
                    return self._find("guid", guid, f"Schema {guid} not found")
                case "PUT", ["config"]:
                    self._level = body["compatibility"]
                    return body
        raise RegistryRefused(404, 404, "HTTP 404 Not Found")

    def close(self) -> None:
        """It lives as long as the process."""

    def _register(self, subject: str, schema: Schema) -> Tree:
        parsed = self._parsed(schema)
        versions = self._subjects.get(subject, [])
        for each in versions:
            if (each["schemaType"], each["schema"]) == (schema.type, parsed.canonical):
                return each
        if versions and self._level != "NONE":
            self._check(subject, parsed, versions[-1])
        text = parsed.canonical
        schema_id = self._ids.setdefault((schema.type, text), len(self._ids) + 1)
        digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
        made: Tree = {
            "id": schema_id,
            "guid": str(uuid.UUID(bytes=digest)),
            "subject": subject,
            "version": versions[-1]["version"] + 1 if versions else 1,
            "schemaType": schema.type,
            "schema": text,
            "references": [each._asdict() for each in schema.references],
        }
        self._subjects.setdefault(subject, []).append(made)
        return made

    def _check(self, subject: str, parsed: ParsedSchema, latest: Tree) -> None:
        before = self._parsed(schema_from(latest))
        problems = ["Incompatible because of different schema type"]
        if before.type == parsed.type:
            problems = parsed.unreadable(before, "new", "old")
        if problems:
            text = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
            raise RegistryRefused(409, 409, f"{text}[{', '.join(problems)}]")

    def _lookup(self, subject: str, schema: Schema) -> Tree:
        text = self._parsed(schema).canonical
        for each in self._of(subject):
            if (each["schemaType"], each["schema"]) == (schema.type, text):
                return each
        raise RegistryRefused(404, 40403, "Schema not found")

    def _version(self, subject: str, version: str) -> Tree:
        for each in reversed(self._of(subject)):
            if version in ("latest", "-1", str(each["version"])):
                return each
        raise RegistryRefused(404, 40402, f"Version {version} not found.")

    def _of(self, subject: str) -> list[Tree]:
        if subject not in self._subjects:
            raise RegistryRefused(404, 40401, f"Subject '{subject}' not found.")
        return self._subjects[subject]

    def _find(self, key: str, wanted: object, problem: str) -> Tree:
        for versions in self._subjects.values():
            for each in versions:
                if each[key] == wanted:
                    return each
        raise RegistryRefused(404, 40403, problem)

    def _parsed(self, schema: Schema) -> ParsedSchema:
        try:
            return parse_schema(schema.type, schema.text, self._resolved(schema))
        except InvalidSchema as error:
            raise RegistryRefused(422, 42201, str(error)) from None

    def _resolved(self, schema: Schema) -> list[ResolvedReference]:
        found: dict[str, ResolvedReference] = {}
        for reference in schema.references:
            other = schema_from(self._version(reference.subject, str(reference.version)))
            found |= {each.name: each for each in self._resolved(other)}
            found[reference.name] = ResolvedReference(reference.name, other.text)
        return list(found.values())


_mocks: dict[str, MockRegistry] = {}
_lock = threading.Lock()


def mock_transport(name: str) -> MockRegistry:
    with _lock:
        return _mocks.setdefault(name, MockRegistry())


def drop_mock(name: str) -> None:
    """The next one of this name is empty."""
    with _lock:
        _mocks.pop(name, None)
