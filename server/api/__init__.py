"""One folder a wire dialect, and what they share."""
