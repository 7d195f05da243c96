"""Consumer groups at the command line: tables, plans for their offsets, and what is told of a change."""
