"""Claims on audits."""
