"""`python -m tests.faults.guided TARGET [libFuzzer's flags]`: a fuzz target under atheris, guided by coverage."""

import sys

import atheris

with atheris.instrument_imports(include=["server", "tools"]):
    from tests.faults.fuzzing import SCHEMAS, reader


def main() -> None:
    """Run until something raises or libFuzzer's limit is reached."""
    name, *flags = sys.argv[1:]
    target = reader if name == "reader" else SCHEMAS[name]
    atheris.Setup([sys.argv[0], *flags], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
