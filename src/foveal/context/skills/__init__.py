"""Skills: folders with a SKILL.md. A list of them in the static prompt, the text on demand, nothing installed unasked."""

from foveal.context.skills.front_matter import Skill
from foveal.context.skills.scan import SkillProblem
from foveal.context.skills.skills import SKILL_TOOL, Resource, SkillBody, Skills, catalogue

__all__ = ["SKILL_TOOL", "Resource", "Skill", "SkillBody", "SkillProblem", "Skills", "catalogue"]
