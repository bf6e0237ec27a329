"""Claims on the mechanism of evidence: verdicts, figures, engines."""
