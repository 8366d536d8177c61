"""Locust among the other tests."""

from __future__ import annotations

import os

# Locust replaces parts of the standard library when it is imported: right for a load test, but every other test of this
# process would run on them too. The variable is taken back, because processes that tests start want the real Locust.
os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"
import locust  # noqa: F401

del os.environ["LOCUST_SKIP_MONKEY_PATCH"]
