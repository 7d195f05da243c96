"""The shells around the coordinators: they read and append the internal topics, keep time, and answer."""
