"""Sources of examples, and the tokenised store that they become."""
