"""The loader: committed records become the image of this node, and its snapshots. The same on every node."""
