"""How good a rung's answers are, asked of the served model: what is measured is what is served.

lm-evaluation-harness was weighed and left out. Version 0.4.13 brings 34 packages that nothing else here needs (pandas,
pyarrow, scipy, scikit-learn, nltk, datasets), reads MMLU from a hub instead of the public CSV files, and has no client
for Triton's KServe protocol: it would measure another path than the one that is served. For multiple choice it asks for
the log-likelihood of four continuations, which `llm_baseline` and NVIDIA's vLLM backend do not give; one token, chosen
among four, ranks " A" to " D" in the same order with one request. The prompts are those of MMLU's authors, so figures
are comparable with published 5-shot ones.
"""
