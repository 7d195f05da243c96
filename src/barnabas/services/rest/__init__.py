"""The REST proxy: Confluent's HTTP APIs v2 and v3 in front of any Kafka."""
