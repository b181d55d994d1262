"""`python -m server` is `laguna`."""

from server.cli import main

main()
