"""Barnabas beside Apache Kafka on the same machine in the same minutes: `python -m benchmarks [case ...] [--quick]`."""
