"""A small client of sequence mode: conversations by token ids, and text around them."""
