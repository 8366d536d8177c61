"""What runs in the quantize environment: torch, an older transformers, and a quantiser. Nothing of the engine's."""
