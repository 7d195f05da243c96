"""From bytes of a topic to Connect's data and back."""
