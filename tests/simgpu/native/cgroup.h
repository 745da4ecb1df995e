/*
 * Cgroups as directories of a v2 tree, be it the kernel's or a plain one made by a test, and as /proc shows them.
 *
 * A test's tree is told by a file `cgroup.controllers` in its root. Its directories stand for the cgroups of the same
 * path in whatever hierarchy the machine has, so that real processes of a v1 machine are found in a simulated v2 tree.
 */
#ifndef SIMGPU_CGROUP_H
#define SIMGPU_CGROUP_H

/* The part of an absolute path without links below the root of its tree; empty for the root, NULL for no tree. */
const char *cgroup_below_root(const char *directory);
/* Whether a process whose /proc/PID/cgroup has this text is in the cgroup of this path below the root, or deeper. */
int cgroup_holds(const char *below_root, const char *proc_text);
/* Whether it is in the cgroup of this directory, wherever the root of the tree may be, and not deeper. */
int cgroup_is_of(const char *directory, const char *proc_text);

#endif
