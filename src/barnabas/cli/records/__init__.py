"""Records on their way between a terminal and a topic: read, deserialized, formatted, counted."""
