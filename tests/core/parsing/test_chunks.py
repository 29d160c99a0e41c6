import os
import random

import pytest
from refusals import refused
from toy_treebank import as_mrg, random_tree

from t2t_keras.parsing.trees import split_files, symbols, tree_chunks, words


def read(chunk, *which):
    return [tuple(side.decode() for side in pair) for pair in chunk.pairs(*which)]


@pytest.mark.parametrize("size", [1, 4, 10, 100])
def test_chunks_divide_the_trees(tmp_path, size):
    generator = random.Random(3)
    trees, paths = [random_tree(generator) for _ in range(22)], []
    for start, end in ((0, 7), (7, 7), (7, 10), (10, 22)):
        paths.append(tmp_path / f"{len(paths)}.mrg")
        paths[-1].write_text("".join(map(as_mrg, trees[start:end])))
    chunks = tree_chunks(paths, size)
    expected = [(" ".join(words(tree)), " ".join(symbols(tree))) for tree in trees]
    assert [pair for chunk in chunks for pair in read(chunk)] == expected
    assert [chunk.count for chunk in chunks[:-1]] == [size] * (len(chunks) - 1)
    assert sum(chunk.count for chunk in chunks) == 22
    assert read(chunks[0], 1, 3) == read(chunks[0])[1::3]
    for chunk in chunks:
        assert chunk.symbols == {symbol for _, line in read(chunk) for symbol in line.split()}


def test_positions_and_trees_without_words(tmp_path):
    path = tmp_path / "02" / "a.trees"
    path.parent.mkdir()
    path.write_text("\n(S (NN a))\n(())\n( (S\n (NN b))) (S (-NONE- *))\n(S (NN c))\n")
    [chunk] = tree_chunks([path], 10)
    assert [sentence for sentence, _ in read(chunk)] == ["a", "", "b", "", "c"]
    assert {line for _, line in read(chunk)} == {"(S (NN) /S)", ""}
    places = [chunk.location(index, 0) for index in range(5)]
    assert places == [f"02/a.trees:{line}" for line in (2, 3, 4, 4, 6)]


def touch(folder, *names):
    for path in map(folder.joinpath, names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_sections_wherever_they_stand(tmp_path, capsys):
    touch(
        tmp_path, "treebank/parsed/mrg/wsj/02/wsj_0201.mrg", "treebank/parsed/mrg/wsj/02/a.mrg",
        "WSJ/21/WSJ_2100.MRG", "flat/wsj_2201.mrg", "parsed/mrg/wsj/23/wsj_2300.mrg",
        "parsed/mrg/wsj/00/wsj_0001.mrg", "parsed/mrg/wsj/24/wsj_2400.mrg",
        "parsed/mrg/brown/cf/cf01.mrg", "tagged/wsj/02/wsj_0201.pos", "silver/03/wsj_0301.mrg",
    )  # fmt: skip
    splits = split_files(tmp_path, excluded_folder=tmp_path / "silver")
    assert {split: [path.name for path in paths] for split, paths in splits.items()} == {
        "train": ["a.mrg", "wsj_0201.mrg", "WSJ_2100.MRG"],
        "dev": ["wsj_2201.mrg"],
        "test": ["wsj_2300.mrg"],
    }
    missing = ", ".join(f"{section:02d}" for section in range(3, 21))
    assert f" {missing}." in capsys.readouterr().out


def test_links_are_followed_once(tmp_path):
    shared, mine = tmp_path / "shared", tmp_path / "mine"
    touch(shared, "02/wsj_0201.mrg", "22/wsj_2201.mrg")
    (shared / "up").symlink_to(shared)
    (shared / "02" / "wsj_0202.mrg").symlink_to("nowhere")  # which reading it says
    mine.mkdir()
    (mine / "treebank").symlink_to(shared)
    (mine / "wsj_2201.mrg").symlink_to(shared / "22" / "wsj_2201.mrg")
    assert split_files(mine) == {
        "train": [mine / "treebank" / "02" / f"wsj_020{number}.mrg" for number in (1, 2)],
        "dev": [mine / "treebank" / "22" / "wsj_2201.mrg"],
    }


def test_a_folder_that_cannot_be_read_is_named(tmp_path, capsys, monkeypatch):
    def refusing(path):
        if str(path).endswith("02"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    scandir = os.scandir
    touch(tmp_path, "02/wsj_0201.mrg", "22/wsj_2201.mrg")
    monkeypatch.setattr(os, "scandir", refusing)
    with refused("missing_source_files", tmp_path, "train"):
        split_files(tmp_path)
    assert capsys.readouterr().out.startswith(f"{tmp_path / '02'} ")


@pytest.mark.parametrize(
    ("names", "code", "named"),
    [
        (["a/wsj_0201.mrg"], "missing_source_files", "dev"),
        (["a/wsj_0201.mrg", "a/wsj_2201.mrg", "b/02/wsj_0201.mrg"], "given_twice", "b/02"),
    ],
)
def test_missing_sections_and_copies_are_refused(tmp_path, names, code, named):
    touch(tmp_path, *names)
    with refused(code, named):
        split_files(tmp_path)
