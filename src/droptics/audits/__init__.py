"""What is dropout doing to my network? Sites, penalties, bugs and advice for any torch module."""

from droptics.audits import advice, misuses, surroundings  # noqa: F401 - they register their findings
from droptics.audits.audit import audit
from droptics.audits.callbacks import audit_numbers, huggingface_callback, lightning_callback
from droptics.audits.discovery import AuditedSite
from droptics.audits.findings import Finding
from droptics.audits.measuring import Number
from droptics.audits.report import Report, SiteReport

__all__ = [
    "AuditedSite",
    "Finding",
    "Number",
    "Report",
    "SiteReport",
    "audit",
    "audit_numbers",
    "huggingface_callback",
    "lightning_callback",
]

Site = AuditedSite  # the old name; `models.Site` is the model of one
