"""What operators remember: stores in memory, and their versions in files."""
