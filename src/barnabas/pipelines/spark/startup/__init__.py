"""How Spark starts fast: the JVM, its archive of classes, and workers that are forked."""
