#!/bin/sh
# The kit's own tests, and the example in README.md if there is a sidecar at $BASE.
set -e
cd "$(dirname "$0")"
php -d error_reporting=-1 test.php
COMPOSER_ALLOW_SUPERUSER=1 composer validate --quiet --no-check-version --no-check-publish --no-interaction
if [ -n "$BASE" ]; then
  sed -n '/^```php run$/,/^```$/p' README.md | sed '1d;$d' | sed "s#__DIR__ \. '#'$PWD#" | php | grep -q txn_
fi
