"""What a stub inside tritonserver and an engine process say to each other."""
