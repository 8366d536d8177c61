"""The memory plan: what each engine of a profile takes of a GPU, and what is left for its KV cache."""
