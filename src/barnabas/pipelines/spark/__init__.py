"""Topics as a Spark source and a Spark sink, through PySpark's data sources: no jar, any Kafka cluster."""
