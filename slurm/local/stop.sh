#!/usr/bin/env bash
# Stops the cluster of start.sh: cancels its jobs, then ends its daemons, and nobody else's process.
# With --purge its state folder and what it wrote in /etc go too. Safe to run at any time.
set -uo pipefail
# shellcheck source=slurm/local/common.sh
. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/common.sh"
need_root
case "${1:-}" in
    '' | --purge) ;;
    *) say "unknown argument $1; the only one is --purge" && exit 2 ;;
esac
[ -d "$STATE" ] || { say "nothing in $STATE" && exit 0; }
if [ -z "${LOCAL_SLURM_LOCKED:-}" ]; then
    exec 9>"$STATE/lock"
    flock -w 180 9 || { say "a start is still running" && exit 1; }
fi

cancel_jobs() {
    local jobs t
    [ -n "$(owned slurmctld)" ] || return 0
    jobs=$(ask squeue -h -o %A 2>/dev/null | sort -u)
    [ -n "$jobs" ] || return 0
    # shellcheck disable=SC2086
    ask scancel $jobs
    for ((t = 0; t < 10 * (KILL_WAIT + 5); t++)); do
        [ -n "$(ask squeue -h 2>/dev/null)" ] || return 0
        sleep 0.1
    done
}

stop_daemon() { # stop_daemon SECONDS PROGRAM: asks, waits, then kills
    local tries=$(($1 * 10)) pids
    pids=$(owned "$2")
    [ -n "$pids" ] || return 0
    # shellcheck disable=SC2086
    kill -TERM $pids 2>/dev/null
    while pids=$(owned "$2") && [ -n "$pids" ] && ((tries-- > 0)); do sleep 0.1; done
    [ -n "$pids" ] || return 0
    say "killing $2"
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null
}

kill_orphans() { # processes of jobs whose node daemon has lost them
    local pid
    with_variable "SLURM_CONF=$SLURM_CONF" | while read -r pid; do
        grep -qz '^SLURMD_NODENAME=node' "/proc/$pid/environ" 2>/dev/null || continue
        [ "$pid" = $$ ] || { say "killing process $pid, left by a job" && kill -KILL "$pid" 2>/dev/null; }
    done
}

cancel_jobs
stop_daemon 5 slurmd
stop_daemon 8 slurmstepd
stop_daemon 10 slurmctld
stop_daemon 10 slurmdbd
stop_daemon 15 mariadbd
stop_daemon 5 munged
kill_orphans
rm -f "$STATE"/run/*.pid "$STATE"/munge/socket*

if [ "${1:-}" = --purge ] && [ -e "$STATE/etc/slurm.conf" ]; then
    for file in slurm.conf gres.conf; do
        [ "$(readlink "/etc/slurm/$file")" = "$STATE/etc/$file" ] && rm -f "/etc/slurm/$file"
    done
    # written in place: in a container /etc/hosts can't be replaced
    if grep -qF -- "$HOSTS_MARK" /etc/hosts; then
        kept=$(grep -vF -- "$HOSTS_MARK" /etc/hosts)
        printf '%s\n' "$kept" >/etc/hosts
    fi
    rm -rf -- "$STATE"
fi
say "stopped"
