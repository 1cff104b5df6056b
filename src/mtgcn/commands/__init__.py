"""Commands that `mtgcn.cli` has, arguments only, and what all commands share."""
