"""A log directory: its lock and identity, checkpoints, the logs in it, and what waits for its disk."""
