"""The data plane: turns of tasks, run by Spark queries in a process of its own."""
