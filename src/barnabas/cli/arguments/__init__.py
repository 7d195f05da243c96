"""What users write for tools: dates and durations, feature levels, credentials, files of partitions."""
