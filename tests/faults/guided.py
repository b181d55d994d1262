"""`python -m tests.faults.guided TARGET [libFuzzer's flags]`: a fuzz target under atheris, guided by coverage."""

import sys
from contextlib import ExitStack

import atheris

with atheris.instrument_imports(include=["models.messages", "models.spelling", "models.template", "server", "tools"]):
    from tests.faults.fuzzing import SCHEMAS, embedded_tokenizer, reader, rendering, routed


def main() -> None:
    """Run until something raises or libFuzzer's limit is reached."""
    name, *flags = sys.argv[1:]
    with ExitStack() as stack:
        match name:
            case "reader":
                target = reader
            case "template":
                target = rendering(embedded_tokenizer())
            case "routes":
                target = stack.enter_context(routed())
            case _:
                target = SCHEMAS[name]
        atheris.Setup([sys.argv[0], *flags], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
