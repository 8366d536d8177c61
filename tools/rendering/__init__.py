"""From a profile to the files tritonserver loads."""
