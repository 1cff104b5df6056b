"""Tables, charts and HTML pages of results."""
