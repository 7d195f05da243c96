"""What moves and transforms data: sources, sinks and compilers for Spark, never an engine of our own."""
