"""A terminal chat: a conversation, the commands that steer it, and the loop that runs it on a terminal or a pipe."""
