"""What is dropout doing to my network? Sites, penalties, bugs and advice for any torch module."""

from droptics.audits import advice, misuses, surroundings  # noqa: F401 - they register their findings
from droptics.audits.audit import audit
from droptics.audits.callbacks import audit_numbers, huggingface_callback, lightning_callback
from droptics.audits.discovery import AuditedSite
from droptics.audits.findings import Finding
from droptics.audits.report import Report, SiteReport
from droptics.estimates import PlainEstimate

__all__ = ["AuditedSite", "Finding", "PlainEstimate", "Report", "SiteReport"]
__all__ += ["audit", "audit_numbers", "huggingface_callback", "lightning_callback"]

# the old names: `models.Site` is the model of one, and a number with its interval is an estimate everywhere
Site, Number = AuditedSite, PlainEstimate
