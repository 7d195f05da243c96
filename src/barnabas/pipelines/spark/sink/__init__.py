"""Topics as an exactly-once sink of Spark: writers.py is what Spark calls, commit.py tells the protocol."""
