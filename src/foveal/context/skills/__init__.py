"""Skills: folders with a SKILL.md. A list of them in the static prompt, the text on demand, nothing installed unasked."""

from foveal.context.skills.catalogue import SKILL_TOOL, catalogue
from foveal.context.skills.front import Skill
from foveal.context.skills.install import InstallPlan, install, install_plan
from foveal.context.skills.scan import Resource, SkillBody, SkillProblem, Skills

__all__ = [
    "SKILL_TOOL",
    "InstallPlan",
    "Resource",
    "Skill",
    "SkillBody",
    "SkillProblem",
    "Skills",
    "catalogue",
    "install",
    "install_plan",
]
