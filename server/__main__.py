"""`python -m server` is `laguna`."""

from server.cli import main

main(prog_name="laguna")
