"""The stub's side of `chat_tokenizer`."""
