// SPDX-License-Identifier: Apache-2.0
/*
 * System calls: a list of those that the switch makes from its start's end to its own, and what its
 * libraries make for it.
 *
 * What is called for each frame is allowed whatever its arguments, so that the kernel (5.11 or
 * later) does not run the filter for it at all: it costs 12 ns more than without. Of the others
 * some are allowed with certain arguments only. Two are refused instead of ending the process,
 * since a library may ask honestly and can do without: clone3(), whose flags a filter cannot see
 * and in whose place libc then calls clone(), and to map code, as libc does to look a group up in a
 * way that was not loaded before.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/io_uring.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/layers.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define CLONE_NEW_ANY                                                                  \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME)

static const int calls[] = {
	/* for frames, or to wait for them */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(futex),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(sched_yield),
	/* sockets that are there */
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendto),
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(connect),
	SCMP_SYS(shutdown),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	/* descriptors */
	SCMP_SYS(close),
	SCMP_SYS(fcntl),
	SCMP_SYS(lseek),
	SCMP_SYS(pread64),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(eventfd2),
	SCMP_SYS(pipe2),
	/* files, within what Landlock leaves of them */
	SCMP_SYS(openat),
	SCMP_SYS(fstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(lstat),
	SCMP_SYS(stat),
	SCMP_SYS(statx),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getcwd),
	SCMP_SYS(umask),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchownat),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	/* memory */
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	/* threads and signals */
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(rseq),
	SCMP_SYS(gettid),
	SCMP_SYS(getpid),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(getcpu),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	/* questions */
	SCMP_SYS(clock_getres),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(getrandom),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(sysinfo),
	SCMP_SYS(uname),
};

/* A call that is allowed if one argument, or some bits of it, have a value. */
struct condition {
	int call;
	struct scmp_arg_cmp arg;
};

#define ONLY(call, arg, value)                                                  \
	{                                                                       \
		SCMP_SYS(call), SCMP_CMP((arg), SCMP_CMP_EQ, (uint64_t)(value)) \
	}
#define ONLY_BITS(call, arg, mask, value)                                                        \
	{                                                                                        \
		SCMP_SYS(call),                                                                  \
			SCMP_CMP((arg), SCMP_CMP_MASKED_EQ, (uint64_t)(mask), (uint64_t)(value)) \
	}

static const struct condition conditions[] = {
	ONLY_BITS(mmap, 2, PROT_EXEC, 0),
	ONLY_BITS(mprotect, 2, PROT_EXEC, 0),
	ONLY_BITS(clone, 0, CLONE_THREAD | CLONE_NEW_ANY, CLONE_THREAD),
	ONLY(socket, 0, AF_UNIX),
	ONLY(prlimit64, 0, 0),
	ONLY(prctl, 0, PR_SET_NAME),
	ONLY(io_uring_register, 1, IORING_UNREGISTER_FILES),
	ONLY(ioctl, 1, FIONBIO),
	ONLY(ioctl, 1, FIONREAD),
	ONLY(ioctl, 1, TUNSETIFF),
	ONLY(ioctl, 1, TUNGETIFF),
	ONLY(ioctl, 1, TUNSETVNETHDRSZ),
	ONLY(ioctl, 1, TUNSETOFFLOAD),
	ONLY(ioctl, 1, SIOCGIFINDEX),
	ONLY(ioctl, 1, SIOCGIFFLAGS),
	ONLY(ioctl, 1, SIOCSIFFLAGS),
	ONLY(ioctl, 1, SIOCGIFHWADDR),
	ONLY(ioctl, 1, SIOCGIFMTU),
	ONLY(ioctl, 1, TCGETS), /* libc's, of an output */
};

/* By whoever sanitizes, see layers.h. */
static const int sanitizers_calls[] = {
	SCMP_SYS(ptrace),  SCMP_SYS(wait4),	 SCMP_SYS(clone),
	SCMP_SYS(prctl),   SCMP_SYS(getdents64), SCMP_SYS(getdents),
	SCMP_SYS(getppid), SCMP_SYS(open),	 SCMP_SYS(dup),
};

/* What this architecture has not got has a negative number. */
static int allow(scmp_filter_ctx filter, const int *list, size_t n)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		if (list[i] >= 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, list[i], 0);
	}
	return r;
}

static int allow_conditions(scmp_filter_ctx filter)
{
	int r = 0;

	for (size_t i = 0; !r && i < ARRAY_SIZE(conditions); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, conditions[i].call, 1,
				     conditions[i].arg);
	/* Its own threads: abort(), and the watchdog. */
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				     SCMP_A0(SCMP_CMP_EQ, (uint64_t)getpid()));
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1,
				     SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
	if (!r)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

/* A ring that is made later is restricted by us, but need not be by somebody else. */
static int allow_io_uring(scmp_filter_ctx filter, bool later)
{
	int r;

	if (!later)
		return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(io_uring_setup), 0);
	r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(io_uring_setup), 0);
	return r ? r : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(io_uring_register), 0);
}

static int fill(scmp_filter_ctx filter, const struct sandbox *sandbox)
{
	int r;

	/* All threads, if a library has made one. Nothing foreign runs: no slower speculation. */
	r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_API_SYSRAWRC, 1);
	if (!r)
		r = allow(filter, calls, ARRAY_SIZE(calls));
	if (!r && SANDBOX_SANITIZED)
		r = allow(filter, sanitizers_calls, ARRAY_SIZE(sanitizers_calls));
	if (!r)
		r = allow_conditions(filter);
	if (!r)
		r = allow_io_uring(filter, sandbox->taps_later);
	return r;
}

int seccomp_enter(const struct sandbox *sandbox, struct error *err)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int r;

	/* There is no memory for it, or nothing of it may be used here. */
	if (!filter)
		return error_set(err, ENOSYS, "cannot filter system calls: no seccomp here");
	r = fill(filter, sandbox);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
	if (r)
		return error_set(err, -r, "cannot filter system calls (seccomp): %s", strerror(-r));
	return 0;
}
