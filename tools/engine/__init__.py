"""The engine process: one per model version, outside tritonserver, in an environment of its own."""
