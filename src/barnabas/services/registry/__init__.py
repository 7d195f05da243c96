"""The schema registry: Confluent's HTTP API over the compacted topic `_schemas`."""
