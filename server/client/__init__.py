"""The side of those who ask: finding the server that runs, or starting one for as long as it is needed."""
