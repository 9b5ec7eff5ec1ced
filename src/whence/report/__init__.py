"""14. Reads run directories only: a page of one file, and figures for papers and talks."""

from whence.report.figures import save_mutual_information, save_traversals
from whence.report.page import Report, report
from whence.report.traversals import Traversals
