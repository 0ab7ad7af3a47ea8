"""C `main` of a random program: it runs each statement as often as the program's argument says, 1 without it."""

from __future__ import annotations

from collections.abc import Iterable

_MAIN = """
int main(int count, char **words) {{
    long rounds = count > 1 ? atol(words[1]) : 1;
    memory = calloc(1UL << {log_memory}, 1);
    if (!memory) return 1;
{first}    double sum = 0;
{loops}
    printf("%g\\n", sum);
    return 0;
}}
"""


def main_text(statements: Iterable[str], log_memory: int, first: str = "") -> str:
    """The C text of `main`: `memory` of 2^log_memory zeros, the lines `first`, then statements that add to `sum`."""
    loops = "\n".join(f"    for (long round = 0; round < rounds; round++) {statement}" for statement in statements)
    return _MAIN.format(log_memory=log_memory, first=first, loops=loops)
