"""What a function costs, counted and not timed."""

import sys


def work_of(function):
    """Returns how many lines of Python and calls a function takes."""
    count = 0

    def traced(frame, event, argument):
        nonlocal count
        count += 1
        return traced

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(traced)
    sys.setprofile(traced)
    try:
        function()
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return count
