"""Arrays and token ids: networks, caches, decoding."""
