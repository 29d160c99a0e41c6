"""The names of `import t2t_keras` are the same for Python, for `import *` and for type checkers."""

import ast
import inspect

import t2t_keras


def test_type_checkers_see_each_name_where_it_is_loaded_from():
    (block,) = (
        node
        for node in ast.parse(inspect.getsource(t2t_keras)).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in block.body
        for alias in node.names
    }
    assert seen == t2t_keras._LAZY_IMPORTS
    assert dir(t2t_keras) == sorted({*seen, "__version__"}) == sorted(t2t_keras.__all__)
