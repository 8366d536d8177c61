"""One client for tritonserver: KServe HTTP and gRPC, streaming, with the measurements every rung is judged by."""

import os

# gRPC's C core writes to stderr, in the middle of a streamed answer, whenever the process forks (as `ladder up` does).
# Both variables are read once, when the core is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
