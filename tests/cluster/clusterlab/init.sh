# The first process of a worker: makes the worker's own directories, and keeps containerd and kubelet running, as a
# service manager would. Ends with everything in it when it is killed.
#   init.sh NAME WORKER-DIRECTORY CONTAINERD KUBELET [kubelet's arguments...]
set -eu
name=$1 base=$2 containerd=$3 kubelet=$4
shift 4
hostname "$name"
mount --make-rprivate /
# What is written below /etc stays the worker's own, such as /etc/cdi.
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$base/etc-upper,workdir=$base/etc-work" /etc
mount --bind "$base/lib" /var/lib
mount --bind "$base/log" /var/log
mount --bind "$base/run" /run
mkdir -p /run/netns /run/lock /run/cdi /var/lib/kubelet

# Runs a program again and again, but not while there is a file of its name among the holds.
keep() { # name, program, arguments...
  local part=$1
  shift
  while :; do
    if [ -e "$base/holds/$part" ]; then sleep 0.1; continue; fi
    "$@" >> "$base/log/$part.log" 2>&1 &
    echo $! > "$base/run/$part.pid"
    wait $! || true
    sleep 0.2
  done
}

keep containerd "$containerd" -c "$base/etc/containerd.toml" &
keep kubelet "$kubelet" "$@" &
# Containers' shims become children of this process; it waits for every one.
while :; do wait -n 2>/dev/null || sleep 1; done
