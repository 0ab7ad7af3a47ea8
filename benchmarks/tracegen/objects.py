"""A program for the comparison of live-points: JSON of a text's words, and a binary tree.

    perfvec trace -o python.trace.h5 --skip 30000000 --max-instructions 200000000 -- python3.11 objects.py TEXT

TEXT was docs/explanation/live-points.md.
"""

import collections
import json
import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8") * 3
words = collections.Counter(re.findall(r"\w+", text.lower()))
docs = [{"word": word, "n": n, "letters": list(word)} for word, n in words.items()]
for _ in range(6):
    written = json.dumps(docs)
    back = json.loads(written)
    back.sort(key=lambda row: (-row["n"], row["word"]))


class Node:
    def __init__(self, key: int) -> None:
        self.key = key
        self.left: Node | None = None
        self.right: Node | None = None


def add(tree: Node | None, key: int) -> Node:
    if tree is None:
        return Node(key)
    if key < tree.key:
        tree.left = add(tree.left, key)
    else:
        tree.right = add(tree.right, key)
    return tree


root, key = None, 12345
for _ in range(20000):
    key = (key * 1103515245 + 12345) % 2**31
    root = add(root, key)
print(len(written), back[0])
