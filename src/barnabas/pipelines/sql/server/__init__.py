"""The server: statements by HTTP, the command topic, running queries."""
