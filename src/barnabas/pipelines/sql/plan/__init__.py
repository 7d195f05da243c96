"""A query to a topology: sources, joins, groups and outputs."""
