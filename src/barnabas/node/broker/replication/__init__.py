"""Partitions with replicas on other brokers: followers that copy, leaders that tell the controller who is in sync."""
