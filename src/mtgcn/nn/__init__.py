"""Networks stacked over runs and peers: every layer is one product for all of them."""
