"""Change data capture in Debezium's events: PostgreSQL by logical replication."""
