"""What all HTTP services share: calls and routes, limits and errors, the server, metrics. Knows no service."""
