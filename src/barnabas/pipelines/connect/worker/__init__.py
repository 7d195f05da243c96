"""The control plane: REST, the topics of configurations, offsets and statuses, and who runs what, without a JVM."""
