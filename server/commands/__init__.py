"""The sub-commands of `laguna`: flags in, settings out; what is heavy is imported only by the one that runs."""
