#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
python3 -W error -m unittest test_envelope
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  cache=../../node_modules/.cache/kits/python
  mkdir -p "$cache"
  sed -n '/^```python run$/,/^```$/p' README.md | sed '1d;$d' >"$cache/readme.py"
  example() {
    PYTHONPATH=. python3 "$cache/readme.py"
  }
  in_every_state "$cache/readme.txt"
fi
