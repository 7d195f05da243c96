"""Nodes in the foreground: `barnabas up` and `barnabas server start`."""
