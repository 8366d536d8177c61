"""Settings of all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# A slow machine is no reason to fail.
settings.register_profile("ladder", deadline=None)
settings.load_profile("ladder")

# A shell starts its background jobs with SIGINT ignored, nohup its command with SIGHUP, and what is ignored stays so in
# every child: the commands that the tests interrupt would not notice.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
