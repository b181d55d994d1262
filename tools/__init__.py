"""Text and JSON: the dialect of Laguna, tool schemas, stop strings."""
