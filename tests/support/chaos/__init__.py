"""Clients of a cluster of real processes under faults drawn by a seed, and a judge of what they saw."""
