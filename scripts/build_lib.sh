# shellcheck shell=bash
# Shared by scripts/run, scripts/test and scripts/fuzz; sourced, not run.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# say TEXT: one line for the person at the terminal.
say() { printf '%s\n' "$*" >&2; }

# quietly LOG WHAT COMMAND...: runs a command with its output in LOG, which is shown only if the
# command fails. What takes longer than a moment says so, on a terminal with ninja's own count.
quietly() {
  local log=$1 what=$2 status=0 ticks=0 pid
  shift 2
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  # A background job does not get the terminal's Ctrl-C.
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.05
    ticks=$((ticks + 1))
    if [ "$ticks" -lt 20 ]; then continue; fi
    if [ -t 2 ]; then
      printf '\r\033[K%s %s' "$what" "$(tail -n 1 "$log" | grep -o '^\[[0-9]*/[0-9]*\]')" >&2 || true
    elif [ "$ticks" -eq 20 ]; then
      say "$what ..."
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  if [ -t 2 ] && [ "$ticks" -ge 20 ]; then printf '\r\033[K' >&2; fi
  if [ "$status" -ne 0 ]; then
    say "$what failed; the end of $log:"
    tail -n 60 "$log" >&2
  fi
  return "$status"
}

# one_at_a_time BUILD: waits until no other script builds there; the lock is file descriptor 9.
one_at_a_time() {
  mkdir -p "$1"
  exec 9>"$1/.lock"
  if command -v flock >/dev/null 2>&1; then flock 9; fi
}

# install_once STAMP GROUP...: installs packages unless this very list was found installed before.
install_once() {
  local stamp=$1 list
  shift
  list="$*: $(cksum <"$root/scripts/install_packages")"
  if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$list" ]; then return 0; fi
  "$root/scripts/install_packages" "$@" || return $?
  mkdir -p "$(dirname "$stamp")"
  printf '%s\n' "$list" >"$stamp"
}

# Arguments for cmake that depend on what this machine has.
cmake_extras() {
  if command -v ccache >/dev/null 2>&1; then printf '%s\n' -DCMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
}
