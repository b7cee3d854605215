"""Record batches: their bytes, codecs and rules. Nothing here knows of files."""
