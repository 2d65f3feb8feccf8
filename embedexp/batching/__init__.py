"""Which examples meet in a batch, and the packed batches of tokens that they become."""
