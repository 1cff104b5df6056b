"""What the commands for a person's own files do beyond arguments: reading, checking, fitting, telling, writing."""
