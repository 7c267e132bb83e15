"""What the frameworks declare: their spellings of float types, their cast, math and atomic functions. No cursors."""
