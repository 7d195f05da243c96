"""Kafka Connect's REST API, configuration and semantics, with the data plane as Spark queries."""
