"""One segment of a log: its file of batches, its indexes, and whether what it holds was verified."""
