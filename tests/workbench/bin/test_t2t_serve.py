import sys


def test_a_missing_package_is_named(monkeypatch, refused):
    monkeypatch.delitem(sys.modules, "t2t_keras.workbench.server.run", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    refused("missing_package uvicorn '.[server]'", "t2t-serve", "--model=en-de=run")
