"""What is seen in trained models: hidden states on disk, and a table per analysis of them."""
