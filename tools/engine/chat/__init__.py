"""The parts of the tokenizer: checking a conversation, rendering it, and encoding it with exactly one BOS."""
