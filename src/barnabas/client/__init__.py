"""Our own small client: what brokers, tools and tests need and the common clients do not expose."""
