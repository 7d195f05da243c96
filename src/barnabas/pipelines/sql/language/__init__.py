"""Text to tree: lexer, parser, and the tree itself. Nothing here knows Kafka or Spark."""
