"""Files in directories and object stores: what is written there by sinks and read by sources."""
