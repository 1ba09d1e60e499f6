"""Texts of the built-in rules, by language. Another language is another catalogue; rules that it leaves out speak English.

The texts state facts, and actions that are possible. None asks the model to keep it from the user: attacks do that, and
models rightly take such a reminder for one.
"""

ENGLISH: dict[str, str] = {
    "last_step": (
        "This is the last step. Give the final answer now, from what is known, and say what is left undone. "
        "Further tool calls will not be run."
    ),
    "steps_left": "Steps left: {left}. Plan so that the answer is given within them.",
    "pressure_critical": (
        "The context is nearly full: {used} of {limit} tokens ({percent} %). Ask for small results, finish what is "
        "under way, and state what you still need: older results are about to be folded."
    ),
    "pressure_warning": (
        "The context holds {used} of {limit} tokens ({percent} %). Prefer narrow reads and short outputs; older "
        "results will be folded and can be recalled."
    ),
    "pressure_info": "The context holds {used} of {limit} tokens ({percent} %).",
    "repeated_same": (
        "{tool} was called {times} times in a row with the same arguments and gave the same result. Another such call "
        "will not change it: try another way, or say what is in the way."
    ),
    "repeated_alternating": (
        "The same calls have taken turns {times} times with the same results ({tool}). Step back, and try another "
        "way or say what is in the way."
    ),
    "repeated_error": (
        "{tool} failed {times} times in a row with the same error. Read the error again and change the approach, or "
        "say what is in the way."
    ),
    "new_instructions": "Instructions that are new or changed since the last call: {names}. They hold from now on.",
    "files_uploaded": "Files that the user uploaded: {files}.",
    "suggested_skills": "Skills for the files that came: {names}. Read the instructions of one before such work.",
    "mentioned_tools": "The user mentioned these tools: {names}. Prefer them where they fit.",
    "mentioned_skills": "The user mentioned these skills: {names}. Read the instructions of a skill before using it.",
    "mentioned_agents": "The user mentioned these agents: {names}. A part of the work can be given to them.",
    "active_skill": "Active skill: {skill}. Its instructions hold for this task.",
    "todos_open": (
        'Todos: {open} open, {done} done. Now: "{current}". Next: "{next}". Finish them or change the list before '
        "giving the final answer."
    ),
    "todo_last": 'Todos: the last one is open, {done} done: "{current}". Finish it before giving the final answer.',
    "todos_done": "Todos: all done ({done}). The final answer can be given.",
    "streak": (
        "Tool calls since the user's last message: {calls}. Check that they still serve the request, and answer if "
        "enough is known."
    ),
}

CHINESE: dict[str, str] = {
    "last_step": "这是最后一步。请根据已知内容立即给出最终答复，并说明尚未完成的部分。之后的工具调用不会再执行。",
    "steps_left": "剩余步数：{left}。请安排好，在这些步数内给出答复。",
    "pressure_critical": (
        "上下文即将用尽：已用 {used} / {limit} 个 token（{percent}%）。请只获取小的结果，完成手头的工作，"
        "并写明仍然需要的内容：较早的结果即将被折叠。"
    ),
    "pressure_warning": (
        "上下文已用 {used} / {limit} 个 token（{percent}%）。请缩小读取范围、精简输出；较早的结果会被折叠，仍可取回。"
    ),
    "pressure_info": "上下文已用 {used} / {limit} 个 token（{percent}%）。",
    "repeated_same": (
        "{tool} 已连续 {times} 次以相同参数调用并得到相同结果。再次调用不会有变化：请换一种方法，或说明受阻的原因。"
    ),
    "repeated_alternating": (
        "相同的调用已来回交替 {times} 次，结果相同（{tool}）。请停下来想一想，换一种方法，或说明受阻的原因。"
    ),
    "repeated_error": "{tool} 已连续 {times} 次因同样的错误失败。请重新阅读错误信息并改变做法，或说明受阻的原因。",
    "new_instructions": "自上次调用以来新增或有变化的指令：{names}。从现在起生效。",
    "files_uploaded": "用户上传的文件：{files}。",
    "suggested_skills": "适用于新文件的技能：{names}。处理前请先阅读其说明。",
    "mentioned_tools": "用户提到了这些工具：{names}。合适时请优先使用。",
    "mentioned_skills": "用户提到了这些技能：{names}。使用技能前请先阅读其说明。",
    "mentioned_agents": "用户提到了这些代理：{names}。可以把一部分工作交给它们。",
    "active_skill": "当前启用的技能：{skill}。本任务请遵循其说明。",
    "todos_open": (
        "待办：未完成 {open} 项，已完成 {done} 项。当前：“{current}”。下一项：“{next}”。"
        "请在给出最终答复前完成它们，或更新清单。"
    ),
    "todo_last": "待办：只剩最后一项，已完成 {done} 项：“{current}”。请在给出最终答复前完成它。",
    "todos_done": "待办：已全部完成（{done} 项）。可以给出最终答复。",
    "streak": "自用户上一条消息以来的工具调用次数：{calls}。请确认它们仍服务于该请求；若信息已足够，请作答。",
}

CATALOGUES: dict[str, dict[str, str]] = {"en": ENGLISH, "zh": CHINESE}
