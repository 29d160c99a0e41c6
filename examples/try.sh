#!/usr/bin/env bash
# Translates English into German with the model in models/en-de: on a page, or what comes on standard input.
# examples/try.sh [PORT]
set -euo pipefail
model="$(dirname "$0")/models/en-de"
if ! [ -t 0 ]; then
    exec t2t-decoder --output_dir="$model" --engine=ctranslate2 --decode_from_file=-
fi
page="http://127.0.0.1:${1:-5000}/"
python - "$page" <<'END' &
import sys
import time
import urllib.request
import webbrowser

for _ in range(100):
    try:
        urllib.request.urlopen(sys.argv[1])
    except OSError:
        time.sleep(0.1)
    else:
        webbrowser.open(sys.argv[1])
        break
END
exec t2t-serve --model="en-de=$model" --port="${1:-5000}"
