"""The budget that `--budget` names, over the one of a policy."""

import msgspec

from foveal.session.policy import Policy


def with_budget(policy: Policy, tokens: int) -> Policy:
    """Return the policy with this budget. Its own target is kept if it is below the budget."""
    target = given if (given := policy.budget.target) and given <= tokens else None
    budget = msgspec.structs.replace(policy.budget, limit=tokens, reserve=0, target=target)
    return msgspec.structs.replace(policy, budget=budget, max_context_tokens=None)
