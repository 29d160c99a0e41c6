"""What Prometheus reads from a server."""

from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Metric = TypeVar("Metric", Counter, Gauge, Histogram)

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LINES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counts of one server; none reveals translated text.

    Attributes:
      requests: by method, route and status.
      seconds: of a request, by route.
      in_flight: requests that are being answered.
      lines, characters: that were translated, by model.
      batch_lines, batch_seconds: of each batch, by model.
      broken: placeholders that no hypothesis had right and that were repaired, by model.
      queued: lines that wait, by model.
      reloads: attempts to load a newer version, by model and outcome.
      model_info: 1 for the version that a model has.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def make(
            kind: type[Metric], name: str, meaning: str, *labels: str, **options: Any
        ) -> Metric:
            return kind(f"t2t_serve_{name}", meaning, labels, registry=self._registry, **options)

        self.requests = make(Counter, "requests", "Requests", "method", "route", "status")
        self.seconds = make(Histogram, "request_seconds", "Time", "route", buckets=_SECONDS)
        self.in_flight = make(Gauge, "requests_in_flight", "Requests that are being answered")
        self.lines = make(Counter, "lines", "Translated lines", "model")
        self.characters = make(Counter, "characters", "Translated characters", "model")
        self.batch_lines = make(
            Histogram, "batch_lines", "Lines of a batch", "model", buckets=_LINES
        )
        self.batch_seconds = make(
            Histogram, "batch_seconds", "Time of a batch", "model", buckets=_SECONDS
        )
        self.broken = make(Counter, "broken_placeholders", "Repaired placeholders", "model")
        self.queued = make(Gauge, "queued_lines", "Lines that wait", "model")
        self.reloads = make(Counter, "reloads", "Attempts to load newer models", "model", "outcome")
        self.model_info = make(Gauge, "model_info", "Loaded version", "model", "version")

    def text(self) -> bytes:
        """Returns all of them in Prometheus's text format."""
        return generate_latest(self._registry)
