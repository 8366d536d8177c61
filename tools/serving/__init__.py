"""A real tritonserver on this machine: its backends, its process, its models, and its end."""
