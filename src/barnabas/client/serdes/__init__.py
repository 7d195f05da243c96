"""Keys and values under schemas of a registry: Avro, JSON Schema and Protobuf, as Confluent's serializers write them.

    registry = open_registry("http://localhost:8081")          # or mock://any-name in tests
    serializer = Serializer(registry, Schema(USER))            # registers the schema once
    data = serializer.encode("users", {"name": "anna"})
    Deserializer(registry).decode(data)                        # asks for a schema once

The registry is asked when a schema is seen first, never for a record. `codec_of` gives the codec of a schema alone,
with neither registry nor network.
"""

from __future__ import annotations

from barnabas.client.serdes.codec import Codec, codec_of
from barnabas.client.serdes.deserializer import Decoded, Deserializer
from barnabas.client.serdes.errors import RegistryRefused, RegistryUnreachable, SerdeError
from barnabas.client.serdes.registry import Registry, open_registry, shared_registry
from barnabas.client.serdes.schema import RegisteredSchema, Schema, SchemaReference
from barnabas.client.serdes.serializer import Serializer
from barnabas.client.serdes.settings import SerdeSettings

__all__ = [
    "Codec",
    "Decoded",
    "Deserializer",
    "RegisteredSchema",
    "Registry",
    "RegistryRefused",
    "RegistryUnreachable",
    "Schema",
    "SchemaReference",
    "SerdeError",
    "SerdeSettings",
    "Serializer",
    "codec_of",
    "open_registry",
    "shared_registry",
]
