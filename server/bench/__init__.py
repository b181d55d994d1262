"""`laguna bench`: what speculation costs and brings on this machine, on the loaded pair."""
