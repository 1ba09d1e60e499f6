"""Skills: folders with a SKILL.md. A list of them in the static prompt, the text on demand, nothing installed unasked."""

from foveal.inject.skills.catalogue import SKILL_TOOL, catalogue
from foveal.inject.skills.front import Skill
from foveal.inject.skills.install import InstallPlan, install, install_plan
from foveal.inject.skills.scan import Problem, Resource, SkillBody, Skills

__all__ = [
    "SKILL_TOOL",
    "InstallPlan",
    "Problem",
    "Resource",
    "Skill",
    "SkillBody",
    "Skills",
    "catalogue",
    "install",
    "install_plan",
]
