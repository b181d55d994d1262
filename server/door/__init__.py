"""What a request passes before any route sees it: who may ask, from where, how much, and for how long."""
