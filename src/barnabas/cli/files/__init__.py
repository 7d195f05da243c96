"""The files of a node, as tools print, check and format them."""
