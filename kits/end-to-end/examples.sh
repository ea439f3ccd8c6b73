# Runs `example` in each state of a rotation: a line of $STATES is the state, then API_KEY, KEY and IV.
in_every_state() {
  echo "$STATES" | while read -r state API_KEY KEY IV; do
    export API_KEY KEY IV
    example </dev/null >"$1" 2>&1 && grep -q txn_ "$1" || {
      echo "the example in README.md failed: $state"
      cat "$1"
      exit 1
    }
  done
}
