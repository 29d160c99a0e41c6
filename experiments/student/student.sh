#!/usr/bin/env bash
# The recipe on real text: EN-DE of Tatoeba, LibreOffice's help, Debian's package
# descriptions and messages of free software, and German news alone. A GPU trains the teacher in three minutes, two cores
# take over a day; the rest is three and a half hours on these. It goes on where it was.
#
#   experiments/student/student.sh DATA runs/student
set -euo pipefail
here=$(realpath "$(dirname "$0")") data=$(realpath "$1") out=$2
mkdir -p "$out/text" && cd "$out"
for corpus in tatoeba libreoffice_help debian_descriptions localisation; do
    for split in train dev; do
        for code in en de; do
            ln -sf "$data/$corpus/$split.en-de.$code" "text/$corpus.$split.$code"
        done
    done
done
cat "$data"/wmt/news*20{08,09,10,11,12}.en-de.de >text/news.de
cp -u "$here/student.yaml" config.yaml
t2t-recipe student config.yaml

for dev in tatoeba libreoffice_help debian_descriptions localisation; do
    t2t-compare --runs=work/exports/teacher1,work/exports/student \
        --source=text/$dev.dev.en --reference=text/$dev.dev.de
done
# Student and baseline on all sets as one text, and on all but the messages.
together() {
    for name in baseline student; do
        for dev in "$@"; do cat work/exports/$name/decodes/dev.$dev.en.*.decodes; done >$name.de
    done
    for dev in "$@"; do cat text/$dev.dev.de; done >reference.de
    t2t-compare --reference=reference.de --translations=baseline.de,student.de --metrics=bleu
}
together tatoeba libreoffice_help debian_descriptions
together tatoeba libreoffice_help debian_descriptions localisation
# One core, greedily, after the model is loaded.
for name in teacher1 student; do
    taskset -c 0 python "$here/one_core.py" work/exports/$name text/tatoeba.dev.en
done
ls -l work/exports/*/model.bin
