"""Single message transformations and predicates; results are those of Apache Connect's classes."""
