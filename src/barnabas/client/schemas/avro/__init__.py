"""Avro schemas: parsing, the text that is kept, equality, and what a reader can read."""
