"""The real tritonserver with the real model. A package, so that its server ends with its last test."""
