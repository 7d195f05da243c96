"""The API v2: topics, produce, and consumers that live in their group."""
