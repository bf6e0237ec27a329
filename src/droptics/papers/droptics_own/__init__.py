"""Results of our own: statements beyond the papers, each with how far it is proved."""
