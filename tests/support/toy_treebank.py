from t2t_keras.parsing.trees import ROOT, Tree, bracketed, tree_texts, trees_of

LABELS = ("S", "NP", "VP", "PP", "SBAR")
TAGS = ("DT", "NN", "VBZ", "IN", "JJ")
WORDS = ("the", "dog", "sees", "near", "red", "house", "cat", "sleeps")


def random_tree(generator, depth=3):
    """Returns (TOP (S ...)); every constituent has words that evalb counts."""
    return Tree(ROOT, (_constituent(generator, depth, "S"),))


def _constituent(generator, depth, label):
    children = []
    for _ in range(generator.randint(1, 4)):
        if depth and generator.random() < 0.5:
            children.append(_constituent(generator, depth - 1, generator.choice(LABELS)))
        else:
            children.append(Tree(generator.choice(TAGS), (), generator.choice(WORDS)))
    if generator.random() < 0.3:
        children.append(Tree(",", (), ","))
    return Tree(label, tuple(children))


def as_mrg(tree):
    """Returns the tree as treebanks have it: over several lines, the root without a label."""
    return f"\n{bracketed(tree)}\n".replace(f"({ROOT}", "(").replace(" (", " \n  (")


def read_trees(path):
    return [tree for text in tree_texts(path) for tree in trees_of(text, path)]
