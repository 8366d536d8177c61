"""What the engine process can run: vLLM, transformers, a tokenizer, or a mock for tests and benches."""
