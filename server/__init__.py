"""Requests, the engine thread and the wire formats."""
