"""The Triton backend "vllm" of this project."""
