"""Claims that span several rooms at once."""
