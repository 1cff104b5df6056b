"""What the commands do beyond parsing arguments: read files, check them, fit, predict, label, compare, write."""
