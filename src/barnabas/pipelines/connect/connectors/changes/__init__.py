"""Change data capture in Debezium's events: PostgreSQL by logical replication, MariaDB and MySQL by the binlog."""
