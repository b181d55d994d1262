"""Prometheus metrics, from the same records as the log's lines."""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from server.engine import Engine
from server.record import Record

MEDIA_TYPE = CONTENT_TYPE_LATEST
FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
EACH = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.25, 0.5, 1)
WHOLE = (0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
COUNTED = {
    "prompt": "Tokens of prompts, those that were cached included.",
    "cached": "Tokens of prompts that were not read again.",
    "completion": "Tokens that were generated.",
    "drafted": "Tokens that were drafted.",
    "accepted": "Drafted tokens that were kept.",
}


class Now(Collector):
    """How the engine is when somebody looks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge each."""
        now = self._engine.health
        for name, told, value in (
            ("up", "1 where requests are answered.", float(now.state == "ready")),
            ("requests_running", "Requests in the batch.", float(now.running)),
            ("requests_waiting", "Requests in the queue.", float(now.waiting)),
            ("requests_parked", "Requests in the batch that wait until there is memory for them.", float(now.parked)),
            ("prefix_cache_bytes", "Memory that the caches of earlier prompts hold.", float(now.kept)),
            ("round_under_way_seconds", "How long the round under way has taken so far.", now.step_seconds or 0.0),
        ):
            yield GaugeMetricFamily(f"laguna_{name}", told, value)


class Metrics:
    """Counters of one server. Used on the event loop only."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Now(engine))
        own = self._registry
        self._requests = Counter(
            "laguna_requests", "Requests that are over.", ("route", "status", "outcome"), registry=own
        )
        self._tokens = {name: Counter(f"laguna_{name}_tokens", told, registry=own) for name, told in COUNTED.items()}
        self._rounds = Counter("laguna_rounds", "Rounds of decoding, counted for each request in them.", registry=own)
        self._first = Histogram(
            "laguna_first_token_seconds", "From a request to its first token.", buckets=FIRST, registry=own
        )
        self._each = Histogram("laguna_token_seconds", "From a token to the next.", buckets=EACH, registry=own)
        self._whole = Histogram(
            "laguna_request_seconds", "From a request to its end, where it generates.", buckets=WHOLE, registry=own
        )

    def observe(self, record: Record) -> None:
        """Count a request that is over."""
        self._requests.labels(record.route, str(record.status), record.outcome).inc()
        figures = record.figures
        if figures is None:
            return
        counts = (figures.prompt, figures.cached, figures.completion, figures.drafted, figures.accepted)
        for counter, count in zip(self._tokens.values(), counts, strict=True):
            counter.inc(count)
        self._rounds.inc(figures.rounds)
        self._whole.observe(record.seconds)
        if record.first_token_seconds is not None:
            self._first.observe(record.first_token_seconds)
        if figures.seconds_per_token is not None:
            self._each.observe(figures.seconds_per_token)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
