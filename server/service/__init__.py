"""The server as a launchd job: what it is described by, and what is done to install, remove and look at it."""
