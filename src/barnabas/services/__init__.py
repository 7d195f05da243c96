"""HTTP services, each a process of its own and a client of any Kafka."""
