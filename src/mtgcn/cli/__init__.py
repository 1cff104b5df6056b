"""The command line: options and printing. What the commands do is in `mtgcn.workflows` and below."""
