"""Streaming SQL in ksqlDB's dialect: statements become topologies (docs/sql.md)."""
