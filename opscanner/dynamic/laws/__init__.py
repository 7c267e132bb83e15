"""Laws that results obey whatever they are: broken ones show a wrong operator without any oracle."""

from opscanner.dynamic.laws.check import check_laws
from opscanner.dynamic.laws.law import Call, Claim, Law
from opscanner.dynamic.laws.table import LAWS

__all__ = ["LAWS", "Call", "Claim", "Law", "check_laws"]
