"""Measurements of the serving path itself: what the backend carries, and what it costs beside a bare engine."""
