"""The API v3: resources of a cluster, and streamed produce."""
