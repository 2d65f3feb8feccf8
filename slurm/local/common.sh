# Settings and helpers that start.sh and stop.sh share; sourced, never run.
# shellcheck shell=bash disable=SC2034

STATE=${LOCAL_SLURM_STATE:-/var/lib/local-slurm}
NODES=${LOCAL_SLURM_NODES:-2}
CPUS=${LOCAL_SLURM_CPUS:-8}
MEMORY=${LOCAL_SLURM_MEMORY:-64000}
GPUS=${LOCAL_SLURM_GPUS:-4}
PORT=${LOCAL_SLURM_PORT:-26817}
REQUEUE_DELAY=${LOCAL_SLURM_REQUEUE_DELAY:-8}
KILL_WAIT=${LOCAL_SLURM_KILL_WAIT:-3}
GRACE=${LOCAL_SLURM_GRACE:-20}

HOSTS_MARK="# local slurm in $STATE"
export PATH="$PATH:/usr/sbin:/sbin"
export SLURM_CONF="$STATE/etc/slurm.conf"
umask 022

say() { printf '[local slurm %3ss] %s\n' "$SECONDS" "$*" >&2; }

need_root() {
    [ "$(id -u)" = 0 ] && return
    say "slurmd starts jobs as their users, so this must run as root"
    exit 1
}

# Every daemon is started with LOCAL_SLURM_OWNER=$STATE in its environment, which its children
# inherit: that, and not a pid file alone, says whose a process is.
with_variable() { # pids of the processes with NAME=VALUE in their environment
    grep -lzxF -- "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}

owned() { # pids of this cluster's processes of one program name
    local pid
    with_variable "LOCAL_SLURM_OWNER=$STATE" | while read -r pid; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$1" ] || echo "$pid"
    done
}

alive() { # does the process of run/NAME.pid live, and is it this cluster's?
    local pid
    pid=$(cat "$STATE/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] &&
        grep -qzxF -- "LOCAL_SLURM_OWNER=$STATE" "/proc/$pid/environ" 2>/dev/null
}

ask() { timeout 10 "$@"; } # SLURM's commands hang for a minute where the controller is away
