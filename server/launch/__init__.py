"""Starting a coding agent against the server: what each one has to be told, and telling it."""
