"""A chat on the terminal, over plain HTTP like any other client."""
