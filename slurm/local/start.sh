#!/usr/bin/env bash
# Starts a real SLURM cluster on this machine: controller, two nodes, accounting. See ../README.md.
#
#   sudo slurm/local/start.sh              installs Debian's packages where they are missing
#   sudo slurm/local/stop.sh [--purge]     stops it; --purge deletes its state too
#
# Safe to run again: with the same settings and everything alive it does nothing.
#
# LOCAL_SLURM_STATE=/var/lib/local-slurm  configuration, keys, database, sockets, logs. A short path
#                               (sockets), readable by the user mysql, no folder above it writable
#                               by a group (munged checks)
# LOCAL_SLURM_NODES=2           nodes, named node1, node2, ...
# LOCAL_SLURM_CPUS=8            CPUs that a node claims to have
# LOCAL_SLURM_MEMORY=64000      megabytes that a node claims to have
# LOCAL_SLURM_GPUS=4            GPUs that a node pretends to have
# LOCAL_SLURM_PORT=26817        first of the TCP ports used, all on 127.0.0.1
# LOCAL_SLURM_REQUEUE_DELAY=8   seconds before a requeued job may start again (SLURM's own: 120)
# LOCAL_SLURM_KILL_WAIT=3       seconds between SIGTERM and SIGKILL (SLURM's own: 30)
# LOCAL_SLURM_GRACE=20          seconds a preempted job has between its signal and its end
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=slurm/local/common.sh
. "$HERE/common.sh"

fail() {
    local log
    say "failed: $*"
    for log in "$STATE"/log/*.log; do
        [ -s "$log" ] && { printf -- '--- %s\n' "$log"; tail -n 12 "$log"; } >&2
    done
    exit 1
}

await() { # await SECONDS WHAT COMMAND...: a deadline on the clock, however slow each try is
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < deadline)) || fail "$what not there in time: $("$@" 2>&1 | tail -n 2)"
        sleep 0.1
    done
}

install_packages() {
    local missing=()
    command -v munged >/dev/null || missing+=(munge)
    command -v srun >/dev/null || missing+=(slurm-client)
    command -v slurmctld >/dev/null || missing+=(slurmctld)
    command -v slurmd >/dev/null || missing+=(slurmd)
    command -v slurmdbd >/dev/null || missing+=(slurmdbd)
    compgen -G '/usr/lib/*/slurm*/accounting_storage_mysql.so' >/dev/null || missing+=(slurm-wlm-mysql-plugin)
    command -v mariadbd >/dev/null || missing+=(mariadb-server)
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    # RUNLEVEL=1: the packages must not start services of their own
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    {
        apt-get -qq -o DPkg::Lock::Timeout=120 update &&
            apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "${missing[@]}"
    } </dev/null >"$STATE/log/apt.log" 2>&1 || fail "apt-get install ${missing[*]}"
}

range() { # range 1 3 -> [1-3]; range 1 1 -> 1
    if [ "$1" = "$2" ]; then echo "$1"; else echo "[$1-$2]"; fi
}

slurm_conf() {
    local nodes gpus=''
    nodes="node$(range 1 "$NODES")"
    [ "$GPUS" = 0 ] || gpus="Gres=gpu:fake:$GPUS"
    cat <<CONF
ClusterName=local
# the controller is here, whatever this machine is called
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$PORT
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# a requeued job waits until its first credential has expired
AuthInfo=socket=$STATE/munge/socket,cred_expire=$REQUEUE_DELAY

StateSaveLocation=$STATE/controller
SlurmdSpoolDir=$STATE/spool/%n
SlurmctldPidFile=$STATE/run/slurmctld-own.pid
SlurmdPidFile=$STATE/run/slurmd-%n-own.pid
SlurmctldLogFile=$STATE/log/slurmctld.log
SlurmdLogFile=$STATE/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info

# neither cgroups nor CPU binding nor PMI nor mail
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
# believe the sizes below, not the hardware
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=120
SlurmdTimeout=300
MinJobAge=600

# what can never start is refused when submitted
EnforcePartLimits=ALL
MaxArraySize=10001
JobRequeue=1
KillWait=$KILL_WAIT
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0,preempt_youngest_first
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# without a default, a job that names no memory takes its nodes whole
DefMemPerCPU=512
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# a preempted job first gets the signal that it asked for, then GraceTime to end
SlurmctldParameters=preempt_send_user_signal

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((PORT + 1))
# the munge socket for slurmdbd is read from here, not from AuthInfo
AccountingStoragePass=$STATE/munge/socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=5

GresTypes=gpu
NodeName=$nodes NodeAddr=127.0.0.1 Port=$(range $((PORT + 11)) $((PORT + 10 + NODES))) CPUs=$CPUS Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=$MEMORY $gpus State=UNKNOWN
PartitionName=main Nodes=$nodes Default=YES DefaultTime=60 MaxTime=INFINITE PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=low Nodes=$nodes DefaultTime=60 MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=$GRACE State=UP
PartitionName=high Nodes=$nodes DefaultTime=60 MaxTime=INFINITE PriorityTier=100 PreemptMode=OFF State=UP
CONF
}

pretend_gpus() { # devices that nobody opens: copies of /dev/null, so that CUDA_VISIBLE_DEVICES is set
    local k
    : >"$STATE/etc/gres.conf"
    [ "$GPUS" != 0 ] || return 0
    for ((k = 0; k < GPUS; k++)); do
        [ -e "$STATE/etc/gpu$k" ] || mknod -m 666 "$STATE/etc/gpu$k" c 1 3 2>/dev/null || : >"$STATE/etc/gpu$k"
    done
    printf 'AutoDetect=off\nNodeName=node%s Name=gpu Type=fake File=%s/etc/gpu%s\n' \
        "$(range 1 "$NODES")" "$STATE" "$(range 0 $((GPUS - 1)))" >"$STATE/etc/gres.conf"
}

announce() { # where clients find the cluster, and names that resolve (rank 0 is met by node name)
    local k file
    for ((k = 1; k <= NODES; k++)); do
        getent hosts "node$k" >/dev/null || echo "127.0.0.1 node$k $HOSTS_MARK" >>/etc/hosts
    done
    # gloo would take the first network interface that it finds
    printf 'export SLURM_CONF=%s\nexport GLOO_SOCKET_IFNAME=lo\n' "$SLURM_CONF" >"$STATE/env.sh"
    mkdir -p /etc/slurm
    for file in slurm.conf gres.conf; do
        if [ -e "/etc/slurm/$file" ] && [ ! -L "/etc/slurm/$file" ]; then
            say "/etc/slurm/$file is another cluster's: source $STATE/env.sh to use this one"
        else
            ln -sfn "$STATE/etc/$file" "/etc/slurm/$file"
        fi
    done
}

launch() { # launch NAME COMMAND...: in the background, away from this terminal and from the lock
    local name=$1
    shift
    setsid "$@" </dev/null >"$STATE/log/$name-output.log" 2>&1 9>&- &
    echo $! >"$STATE/run/$name.pid"
}

start_munge() {
    local folder=$STATE/munge
    [ -s "$folder/key" ] || (umask 077 && head -c 1024 /dev/urandom >"$folder/key")
    rm -f "$folder"/socket*
    launch munged munged --foreground --num-threads=4 --key-file="$folder/key" --socket="$folder/socket" \
        --pid-file="$folder/pid" --seed-file="$folder/seed" --log-file="$folder/log"
    await 20 munged munge -n -S "$folder/socket"
}

start_database() {
    local folder=$STATE/database password
    [ -d "$folder/mysql" ] || mariadb-install-db --no-defaults --user=mysql --datadir="$folder" --skip-test-db \
        --auth-root-authentication-method=normal </dev/null >"$STATE/log/mariadb-install.log" 2>&1 ||
        fail "mariadb-install-db"
    [ -s "$STATE/etc/password" ] ||
        (umask 077 && head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$STATE/etc/password")
    password=$(cat "$STATE/etc/password")
    (umask 077 && cat >"$folder/users.sql") <<SQL
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY '$password';
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY '$password';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
SQL
    chown mysql "$folder/users.sql"
    (umask 077 && cat >"$STATE/etc/slurmdbd.conf") <<CONF
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((PORT + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$STATE/munge/socket
LogFile=$STATE/log/slurmdbd.log
PidFile=$STATE/run/slurmdbd-own.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((PORT + 2))
StorageUser=slurm
StoragePass=$password
StorageLoc=slurm_acct_db
CommunicationParameters=NoInAddrAny
CONF
    launch mariadbd mariadbd --no-defaults --user=mysql --datadir="$folder" --socket="$folder/socket" \
        --pid-file="$folder/pid" --bind-address=127.0.0.1 --port=$((PORT + 2)) --skip-name-resolve \
        --init-file="$folder/users.sql" --skip-log-bin --max-connections=30 --performance-schema=OFF \
        --innodb-buffer-pool-size=32M --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 \
        --innodb-flush-log-at-trx-commit=0 --key-buffer-size=1M
    await 60 mariadbd mariadb --no-defaults -h127.0.0.1 -P$((PORT + 2)) -uslurm -p"$password" -e 'use slurm_acct_db'
}

known_to_accounting() { ask sacctmgr -n -P list cluster format=Cluster | grep -qx local; }

start_accounting() {
    launch slurmdbd slurmdbd -D
    await 60 slurmdbd ask sacctmgr -n -P list cluster
    known_to_accounting || sacctmgr -i add cluster local </dev/null >>"$STATE/log/sacctmgr.log" 2>&1 || true
    await 30 "the cluster's accounts" known_to_accounting
}

start_controller() {
    local left
    launch slurmctld slurmctld -D
    await 60 slurmctld ask scontrol ping
    # jobs that a crash left behind must not start by themselves; their ids are never used again
    left=$(ask squeue -h -o %A | sort -u)
    # shellcheck disable=SC2086
    [ -z "$left" ] || { say "cancelling jobs of an earlier start: "$left && ask scancel $left; } || true
}

# shellcheck disable=SC2317 # called through await
nodes_up() { [ "$(ask sinfo -h -N -p main -o '%N %t' | grep -cE ' (idle|mix|alloc|comp)$')" = "$NODES" ]; }

start_nodes() {
    local k
    for ((k = 1; k <= NODES; k++)); do launch "slurmd-node$k" slurmd -D -N "node$k"; done
    for ((k = 1; k <= NODES; k++)); do
        case $(ask sinfo -h -n "node$k" -p main -o %T) in
            down* | drain*) ask scontrol update nodename="node$k" state=resume || true ;;
        esac
    done
    await 60 "$NODES idle nodes" nodes_up
}

daemons() {
    local k
    echo munged mariadbd slurmdbd slurmctld
    for ((k = 1; k <= NODES; k++)); do echo "slurmd-node$k"; done
}

all_alive() {
    local name
    for name in $(daemons); do alive "$name" || return 1; done
}

ready() {
    all_alive || fail "a daemon died: $(daemons | xargs)"
    say "$1: SLURM $(sinfo -V | cut -d' ' -f2), $NODES nodes of $CPUS CPUs and $GPUS pretended GPUs; partitions main," \
        "low (preemptible), high (preempts low); logs in $STATE/log"
    exit 0
}

need_root
[ ${#STATE} -le 60 ] || fail "LOCAL_SLURM_STATE is too long for a socket's path: $STATE"
mkdir -p "$STATE"/{etc,log,run,controller,munge,database}
for ((k = 1; k <= NODES; k++)); do mkdir -p "$STATE/spool/node$k"; done
chmod 711 "$STATE/munge"
exec 9>"$STATE/lock"
flock -w 180 9 || fail "another start is still running"
install_packages
export LOCAL_SLURM_OWNER=$STATE

slurm_conf >"$STATE/etc/slurm.conf.new"
if all_alive && cmp -s "$STATE/etc/slurm.conf.new" "$STATE/etc/slurm.conf"; then
    rm "$STATE/etc/slurm.conf.new"
    await 60 "$NODES nodes" nodes_up
    ready "already running"
fi
[ ! -e "$STATE/etc/slurm.conf" ] || LOCAL_SLURM_LOCKED=1 LOCAL_SLURM_STATE=$STATE bash "$HERE/stop.sh" 9>&-
mv "$STATE/etc/slurm.conf.new" "$STATE/etc/slurm.conf"
pretend_gpus
announce
start_munge
start_database
start_accounting
start_controller
start_nodes
ready "up"
