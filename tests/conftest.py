"""Settings of all tests."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

# A slow machine is no reason to fail. ./ladder test --fast takes the second profile.
settings.register_profile("ladder", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=25)
settings.load_profile("ladder")

# The collector took a tenth of the time: half a million objects of imported libraries stay, and need not be looked at
# again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


# A shell starts its background jobs with SIGINT ignored, nohup its command with SIGHUP, and what is ignored stays so in
# every child: the commands that the tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
