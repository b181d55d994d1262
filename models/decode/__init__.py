"""One round of block-speculative decoding for all running sessions."""
