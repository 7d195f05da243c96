"""The metadata log of the quorum: its files, what is committed of it, and who leads."""
