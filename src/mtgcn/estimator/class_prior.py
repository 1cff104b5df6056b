"""Known or estimated class shares: factors by which class probabilities are multiplied.

    p'_ic = p_ic f_c / Σ_d p_id f_d

With given shares π, f is such that the mean of p' over all nodes is π. With estimated shares, f = π / l, where l are
the shares of the labels and π maximises the likelihood of all nodes by expectation maximisation (Saerens et al., 2002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtgcn.errors import InputError, shown
from mtgcn.shapes import Float, Int

LABELLED, ESTIMATED = "labelled", "estimated"
FORMS = f"give shares such as a=0.2,b=0.8, {LABELLED!r} or {ESTIMATED!r}"
STEPS, TOLERANCE = 200, 1e-6
MIN_SHARE = 1e-6
ROUNDING = 0.005  # allowed rounding error of shares, as when written in per cent


def parsed_prior(text: str | None) -> str | dict[str, float] | None:
    """
    >>> parsed_prior("a=0.2, b=0.8")
    {'a': 0.2, 'b': 0.8}
    """
    if text in (None, LABELLED, ESTIMATED):
        return text
    shares: dict[str, float] = {}
    for part in (text or "").split(","):
        name, _, share = part.rpartition("=")
        try:
            shares[name.strip()] = float(share)
        except ValueError:
            raise InputError(f"class prior {text!r}; {FORMS}") from None
    return shares


def prior_factors(
    prior: Any,
    probabilities: Float[np.ndarray, "nodes classes"],
    class_names: Sequence[str],
    label_counts: Int[np.ndarray, "classes"],
) -> Float[np.ndarray, "classes"] | None:
    """The factor of each class; None without a prior."""
    if prior is None:
        return None
    labelled = np.maximum(label_counts, MIN_SHARE) / label_counts.sum()
    if isinstance(prior, str) and prior == ESTIMATED:
        shares = labelled
        for _ in range(STEPS):
            before, shares = shares, corrected(probabilities, shares / labelled).mean(axis=0)
            if np.abs(shares - before).max() < TOLERANCE:
                break
        return shares / labelled
    wanted = labelled if isinstance(prior, str) and prior == LABELLED else _given_shares(prior, class_names)
    factors = np.ones(len(wanted))
    for _ in range(STEPS):
        found = corrected(probabilities, factors).mean(axis=0)
        if np.abs(found - wanted).max() < TOLERANCE:
            break
        factors = factors * wanted / np.maximum(found, MIN_SHARE)
        factors /= factors.mean()
    return factors


def corrected(
    probabilities: Float[np.ndarray, "nodes classes"], factors: Float[np.ndarray, "classes"] | None
) -> Float[np.ndarray, "nodes classes"]:
    """
    >>> corrected(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([1.0, 4.0])).round(2)
    array([[0.2 , 0.8 ],
           [0.06, 0.94]])
    """
    if factors is None:
        return probabilities
    products = probabilities * factors
    return products / products.sum(axis=1, keepdims=True)


def _given_shares(prior: Any, class_names: Sequence[str]) -> Float[np.ndarray, "classes"]:
    if not isinstance(prior, Mapping):
        raise InputError(f"class prior {shown(prior)}; {FORMS}")
    given = {str(name): share for name, share in prior.items()}
    if set(given) != set(class_names):
        odd = sorted(set(given) ^ set(class_names))[0]
        fault = "is not a class" if odd in given else "is missing"
        raise InputError(f"class prior: {odd!r} {fault}; give a share of each of {', '.join(class_names)}")
    try:
        shares = np.array([given[name] for name in class_names], dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"class prior {shown(dict(prior))}; {FORMS}") from None
    if not (shares > 0).all() or not abs(shares.sum() - 1) <= ROUNDING * len(shares):
        raise InputError(
            f"class prior: shares {shares.tolist()} sum to {shares.sum():g}; give shares above 0 that sum to 1"
        )
    return shares / shares.sum()
