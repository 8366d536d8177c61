"""The stub's side: code that runs inside tritonserver. Standard library, numpy, pyzmq and msgspec only."""
