"""The OpenAPI document at length: data that fits it, and data that does not, meet no fault of ours."""

from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation, BaseSchema
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from tests.faults.scene import Scene, scene
from tests.faults.tally import Tally

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
AT_LENGTH = 400


@pytest.fixture(scope="module")
def served() -> Iterator[Scene]:
    with scene(context_length=4096) as there:
        yield there


@pytest.fixture(scope="module")
def document(served: Scene) -> BaseSchema:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{served.port}/openapi.json")


def tried(operation: APIOperation, mode: GenerationMode, examples: int) -> int:
    """So many requests of one operation, each of which must be answered as the document says."""
    count = 0

    @hypothesis.seed(11)
    @hypothesis.settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:  # noqa: ANN401
        nonlocal count
        count += 1
        case.call_and_validate(checks=CHECKS, timeout=30)

    ask: Callable[[], None] = run
    ask()
    return count


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_whatever_the_document_allows_or_forbids_is_answered_as_it_says(
    served: Scene, document: BaseSchema, mode: GenerationMode, tally: Tally
) -> None:
    operations = [result.ok() for result in document.get_all_operations() if isinstance(result, Ok)]
    # Where nothing is read, nothing can be wrong.
    fit = [one for one in operations if mode is GenerationMode.POSITIVE or one.body]
    count = sum(tried(operation, mode, AT_LENGTH) for operation in fit)
    tally.case(f"OpenAPI, {mode.value} data", tried=count)
