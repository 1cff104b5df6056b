"""Numbers as people read them; the same in a terminal, in Markdown, in LaTeX and on a page."""

from __future__ import annotations

from mtgcn.experiments.statistics import SampleSummary

SIGNED = "+.1f"  # for differences


def number(value: float, form: str = ".1f") -> str:
    """To one digit behind the point, and without a minus sign before what is shown as zero.

    >>> number(-0.04, SIGNED)
    '+0.0'
    """
    return format(round(value, 1) + 0.0, form)


def percent(share: float, form: str = ".1f") -> str:
    """
    >>> percent(0.1234)
    '12.3'
    """
    return number(100 * share, form)


def interval(sample: SampleSummary, form: str = ".1f") -> str:
    """The 95 % interval of a mean, in per cent."""
    if len(sample.per_run) == 1:
        return "one run"  # says nothing about another run
    return " to ".join(percent(end, form) for end in sample.ci95)


def p_value(value: float) -> str:
    """
    >>> p_value(0.0216), p_value(0.0004)
    ('0.022', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def with_minus_sign(text: str) -> str:
    """With the sign that typesetters take, instead of a hyphen."""
    return text.replace("-", "−")
