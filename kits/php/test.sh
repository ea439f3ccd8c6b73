#!/bin/sh
# Runs the kit's tests and, if there is a sidecar at $BASE, the example in README.md in every state of a rotation.
set -e
cd "$(dirname "$0")"
php -d error_reporting=-1 test.php
COMPOSER_ALLOW_SUPERUSER=1 composer validate --quiet --no-check-version --no-check-publish --no-interaction
if [ -n "$BASE" ]; then
  . ../end-to-end/examples.sh
  cache=../../node_modules/.cache/kits/php
  mkdir -p "$cache"
  sed -n '/^```php run$/,/^```$/p' README.md | sed '1d;$d' | sed "s#__DIR__ \. '#'$PWD#" >"$cache/readme.php"
  example() {
    php "$cache/readme.php"
  }
  in_every_state "$cache/readme.txt"
fi
