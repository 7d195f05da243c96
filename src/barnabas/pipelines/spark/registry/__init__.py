"""Columns of records that have schemas in a registry: to structs and back."""
