"""Several tritonservers behind one address: Envoy in front, weights between servers, and the same for Kubernetes."""
