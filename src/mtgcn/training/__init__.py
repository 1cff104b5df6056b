"""How stacks are trained: the loop, its losses, pseudo labels, what is recorded and what memory it may take."""
