"""Streams: the operators of Kafka Streams as functions over Arrow batches, in one Structured Streaming query."""
