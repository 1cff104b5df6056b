"""Commands that `mtgcn.cli.app` has, arguments only, and what all commands share."""
