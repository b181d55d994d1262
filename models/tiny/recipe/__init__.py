"""How the embedded pair was trained; needs PyTorch, which the server never does."""
