"""Pipelines that run for weeks: a supervisor, the driver it starts again, and what is kept between runs."""
