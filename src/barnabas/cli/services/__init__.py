"""HTTP services in the foreground, and beside a node."""
