#!/bin/sh
# The kit's own tests, and the example in README.md if there is a sidecar at $BASE.
set -e
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
python3 -W error -m unittest test_envelope
if [ -n "$BASE" ]; then
  sed -n '/^```python run$/,/^```$/p' README.md | sed '1d;$d' | python3 - | grep -q txn_
fi
