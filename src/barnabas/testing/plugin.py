"""The pytest plugin that comes with the package."""
