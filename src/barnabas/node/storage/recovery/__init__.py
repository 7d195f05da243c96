"""From what is on the disk at the start to logs; indexes that are written anew."""
