"""Reads what the gateway answered, strictly: whatever has not the shape of an answer is a failure, so that nobody takes it for a decision."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from .decision import NEVER, Decision
from .replies import Answer, Failure

# 285 years (2^53 µs): no gateway says a longer time. Callers wait for times, and make dates of them.
LONGEST_SECONDS = 9_007_199_255
_WHOLE_FIGURES = ("limit", "remaining", "debt")
_SECONDS = ("delay", "waited")
_SECONDS_OR_NEVER = {"retryAfter": "retry_after", "resetAfter": "reset_after"}


class AnswerToAll(NamedTuple):
    allowed: bool
    decisions: List[Decision]


class HoldAnswer(NamedTuple):
    decision: Decision
    # The gateway's name of the hold, and for how many seconds it lasts. Both are there if it is allowed.
    text: str
    ttl: float


class Renewed(NamedTuple):
    # For how many seconds the hold lasts from now; None: nothing is held by it any more.
    ttl: Optional[float]


def read_decisions(answer: Answer, policies: Sequence[str]) -> Union[AnswerToAll, Failure]:
    """Returns a decision for each policy that was asked."""
    allowed, results = answer.get("allowed"), answer.get("results")
    if not isinstance(allowed, bool):
        return Failure('The gateway\'s answer has no "allowed" that is true or false.')
    if not isinstance(results, list) or len(results) != len(policies):
        return Failure(f"The gateway's answer has not the {len(policies)} results that were asked for.")
    decisions: List[Decision] = []
    for result, policy in zip(results, policies):
        decision = read_decision(result, policy)
        if isinstance(decision, Failure):
            return decision
        decisions.append(decision)
    return AnswerToAll(allowed, decisions)


def read_only_decision(answer: Answer, policy: str) -> Union[Decision, Failure]:
    all_of_it = read_decisions(answer, (policy,))
    return all_of_it if isinstance(all_of_it, Failure) else all_of_it.decisions[0]


def read_report(answer: Answer, policy: str) -> Union[Decision, Failure]:
    """Wants to hear the debt, unless no limit was charged."""
    decision = read_only_decision(answer, policy)
    if isinstance(decision, Failure) or decision.debt is not None:
        return decision
    if decision.reason is None:
        return Failure('The gateway\'s answer to a report has no "debt".')
    return Decision(decision.allowed, decision.policy, decision.source, debt=0, reason=decision.reason)


def read_hold(answer: Answer, policy: str) -> Union[HoldAnswer, Failure]:
    decision = read_decision(answer, policy)
    if isinstance(decision, Failure):
        return decision
    text, ttl = answer.get("hold"), answer.get("ttl")
    if not decision.allowed:
        return HoldAnswer(decision, "", 0)
    if not isinstance(text, str) or text == "" or not _is_ttl(ttl):
        return Failure('The gateway\'s answer is allowed, and has no "hold" or no "ttl" above 0 and below 286 years.')
    return HoldAnswer(decision, text, ttl)  # type: ignore[arg-type]


def read_renewal(answer: Answer) -> Union[Renewed, Failure]:
    renewed, ttl = answer.get("renewed"), answer.get("ttl")
    if renewed is False:
        return Renewed(None)
    if renewed is True and _is_ttl(ttl):
        return Renewed(ttl)
    return Failure("The gateway's answer to a renewal cannot be read.")


def read_release(answer: Answer) -> Optional[Failure]:
    """Wants to hear whether something was released: a proxy's page would leave the slots held."""
    if isinstance(answer.get("released"), bool):
        return None
    return Failure('The gateway\'s answer has no "released" that is true or false.')


def read_decision(result: object, asked: str) -> Union[Decision, Failure]:
    """``asked`` is the policy as the caller named it."""
    if not isinstance(result, dict):
        return Failure("A result of the gateway's answer is no object.")
    policy, allowed, reason = result.get("policy", asked), result.get("allowed"), result.get("reason")
    if not isinstance(allowed, bool) or not isinstance(policy, str):
        return Failure('A result of the gateway\'s answer has no "allowed" that is true or false, or no name of its policy.')
    if "reason" in result and not isinstance(reason, str):
        return Failure("A result of the gateway's answer has a reason that is no text.")
    figures = _figures_of(result)
    if isinstance(figures, Failure):
        return figures
    return Decision(allowed, policy, "gateway", reason=reason, **figures)


def _figures_of(result: Answer) -> Union[Dict[str, Any], Failure]:
    """Returns the figures that are there by the names of a decision."""
    figures: Dict[str, Any] = {}
    for name in _WHOLE_FIGURES:
        if name in result:
            if not _is_figure(result[name]):
                return Failure("A result of the gateway's answer has a figure that is no number.")
            figures[name] = int(result[name])
    for name in _SECONDS:
        if name in result:
            if not _is_time(result[name]):
                return _no_time()
            figures[name] = result[name]
    for name, own in _SECONDS_OR_NEVER.items():
        if name in result:
            value = NEVER if result[name] is None else result[name]
            if value is not NEVER and not _is_time(value):
                return _no_time()
            figures[own] = value
    return figures


def _no_time() -> Failure:
    return Failure(f"A result of the gateway's answer has a time that is not from 0 to {LONGEST_SECONDS} seconds.")


def _is_figure(value: object) -> bool:
    # True and False are of type bool, and a number beyond what a float holds is infinite.
    return type(value) is int or type(value) is float and math.isfinite(value)


def _is_time(seconds: Any) -> bool:
    return _is_figure(seconds) and 0 <= seconds <= LONGEST_SECONDS


def _is_ttl(ttl: Any) -> bool:
    return _is_time(ttl) and ttl > 0
