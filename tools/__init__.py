"""Triton LLM Ladder: one chat LLM, one tritonserver, one rung per optimisation."""
