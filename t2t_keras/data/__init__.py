"""From text files to token batches: problems, tokenizer, shards, batches."""
