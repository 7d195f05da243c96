"""JSON Schema, draft 4 to 2020-12: loading, the text that is kept, and what changes between two schemas mean."""
