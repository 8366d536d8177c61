"""EAGLE-3 heads: conversations written by the target, training, export, acceptance measured in vLLM.

`speculators` 0.9 was considered first. It wants the data as a Hugging Face dataset and the hidden states on disk, 4 KB
for every token of a 135M model; here they are computed again in every pass, which on one GPU is faster than reading
them. Its training does not run on CPU without patches (`torch.accelerator`), it is in neither lock file nor NVIDIA's
container, and its checkpoint still has to be checked against vLLM's own computation. What remains to be written without
it is one decoder layer, a mask and a loop, below.

The method: Li et al., "EAGLE-3: Scaling up Inference Acceleration of LLMs via Training-Time Test", 2025. The
computation is that of vLLM's `llama_eagle3.py` and `llm_base_proposer.py`, and tests hold the one against the other.
"""
