"""Claims on attacks."""
