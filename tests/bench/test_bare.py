from itertools import islice

from models.checkpoint import embedded_path
from tests.bench.asks import asks
from tests.bench.bare import bare_loop


def test_the_bare_loop_answers_the_same_requests_in_every_way() -> None:
    bodies = list(islice(asks(), 1))
    with bare_loop(embedded_path(), None) as bare:
        answers = [bare.answer(bodies, speculation) for speculation in ("off", "always", "auto")]
        rate = bare.rate(bodies * 2, "off")
    assert len({answer["tokens"] for answer in answers}) == 1
    assert all(answer["seconds"] > 0 and answer["tokens"] > 30 for answer in answers)
    assert rate > 0
