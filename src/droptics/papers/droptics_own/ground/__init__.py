"""Claims on the ground floor: data, laws, losses, norms, arguments."""
