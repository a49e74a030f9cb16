// SPDX-License-Identifier: Apache-2.0
/* What happens when the pages of a guest's memory go. */
#include "memory_rig.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void without_a_descriptor_there_is_no_handler(void **state)
{
	struct rlimit before, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(sigbus_install(), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* Clauses: memory-c */
static void a_truncated_file_reads_as_zeros_and_marks_the_memory_broken(void **state)
{
	int fd = memfd(4 * PAGE);
	struct guest_mapping *m = map(fd, 0, 4 * PAGE, PAGE, 0);
	struct guest_memory *mem = memory(&m, 1);
	uint8_t bytes[64];
	uint64_t events;
	uint32_t run;
	uintptr_t at = guest_translate(mem, 3 * PAGE, sizeof(bytes), &run);
	int wake = sigbus_install();

	assert_true(wake >= 0);
	memset((void *)at, 1, sizeof(bytes));
	assert_false(guest_memory_broken(mem));
	assert_int_equal(ftruncate(fd, PAGE), 0);
	guest_copy_in(bytes, at, sizeof(bytes));
	assert_int_equal(bytes[0] | bytes[63], 0);
	assert_true(guest_memory_broken(mem));
	assert_int_equal(read(wake, &events, sizeof(events)), sizeof(events));
	guest_memory_free(mem);
	close(fd);
}

/* From now on there is no room for so much private memory, as with vm.overcommit_memory=2. */
static void refuse_large_private_memory(size_t size)
{
	const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)size, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(filter), (struct sock_filter *)filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

/*
 * With no room for a page either, the fault comes again and ends the process. A real one would take
 * the counts of branches with it: so one is sent that says it was at this address.
 */
static void fault_that_nothing_heals(uintptr_t at)
{
	siginfo_t info = { .si_signo = SIGBUS, .si_code = SI_QUEUE, .si_addr = (void *)at };
	struct sigaction action;

	refuse_large_private_memory(1);
	if (syscall(SYS_rt_sigqueueinfo, getpid(), SIGBUS, &info) ||
	    sigaction(SIGBUS, NULL, &action) || action.sa_handler != SIG_DFL)
		_exit(3);
}

/* In a child, which the filter stays with. */
static void touch_what_is_gone(const struct guest_memory *mem, size_t size)
{
	static const unsigned pages[] = { 255, 0, 100, 101 };
	uint8_t bytes[64];
	uint32_t run;

	refuse_large_private_memory(size);
	for (unsigned i = 0; i < ARRAY_SIZE(pages); i++) {
		uintptr_t at = guest_translate(mem, pages[i] * PAGE + 100, sizeof(bytes), &run);

		memset(bytes, 1, sizeof(bytes));
		guest_copy_in(bytes, at, sizeof(bytes));
		if (bytes[0] | bytes[63] || !guest_memory_broken(mem))
			_exit(1);
	}
	fault_that_nothing_heals(guest_translate(mem, PAGE, 1, &run));
#ifdef __SANITIZE_ADDRESS__
	_exit(0); /* it would look for leaks, which takes memory */
#else
	exit(0); /* coverage is counted here as well */
#endif
}

static void pages_that_go_are_replaced_where_there_is_no_room_for_all(void **state)
{
	const size_t size = 256 * PAGE;
	int fd = memfd(size), wake = sigbus_install(), status = 0;
	struct guest_region_desc desc = { .size = size, .uva = PAGE };
	struct guest_mapping *m;
	struct guest_memory *mem;
	struct error err;
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(wake >= 0);
	if (!child) { /* mapped here: a child does not inherit a guest's memory */
		if (guest_mapping_create(fd, &desc, &m, &err) ||
		    guest_memory_create(&m, 1, &mem, &err) || ftruncate(fd, 0))
			_exit(2);
		touch_what_is_gone(mem, size);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
	close(fd);
}

/* A fault that is nobody's memory is a fault of ours, and ends the process as ever. */
static void a_fault_elsewhere_keeps_its_default_action(void **state)
{
	struct sigaction action;
	int fd = memfd(PAGE), status;
	volatile uint8_t *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid_t child;

	assert_true(at != MAP_FAILED && sigbus_install() >= 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	child = fork();
	if (!child) {
		*at = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	/* A sanitizer's own handler may have been there before. */
	assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0);
	munmap((void *)at, PAGE);
	close(fd);
	/* One that somebody sends is the last that is survived. */
	assert_int_equal(raise(SIGBUS), 0);
	assert_int_equal(sigaction(SIGBUS, NULL, &action), 0);
	assert_ptr_equal(action.sa_handler, SIG_DFL);
	assert_true(sigbus_install() >= 0);
}

#define FAULTS 20000u

/* Says to this thread, again and again, that it has met a fault there. */
static void *fault_at(void *at)
{
	siginfo_t info = { .si_signo = SIGBUS, .si_code = SI_QUEUE, .si_addr = at };

	for (unsigned i = 0; i < FAULTS; i++) {
		if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info))
			return at;
	}
	return NULL;
}

/* The slot before that of the address is now a short one's below it, now a long one's above it. */
static void a_slot_that_changes_hands_is_nobodys_meanwhile(void **state)
{
	static const uintptr_t base[] = { PAGE, 1ull << 50 }, len[] = { PAGE, 1ull << 50 };
	struct sigbus_slot *slot = sigbus_watch(PAGE, PAGE, PAGE);
	int fd = memfd(PAGE), wake = sigbus_install();
	struct guest_mapping *m = map(fd, 0, PAGE, PAGE, 0);
	struct guest_memory *mem = memory(&m, 1);
	uint32_t run;
	void *at = (void *)guest_translate(mem, 0, PAGE, &run), *failed = at;
	unsigned broken = 0;
	pthread_t thread;

	assert_true(wake >= 0);
	sigbus_unwatch(slot);
	assert_int_equal(pthread_create(&thread, NULL, fault_at, at), 0);
	for (unsigned i = 0; pthread_tryjoin_np(thread, &failed); i++) {
		slot = sigbus_watch(base[i & 1], len[i & 1], PAGE);
		broken += sigbus_broken(slot);
		sigbus_unwatch(slot);
		broken += sigbus_broken(slot);
	}
	assert_null(failed);
	assert_int_equal(broken, 0);
	assert_true(guest_memory_broken(mem));
	guest_memory_free(mem);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_descriptor_there_is_no_handler), /* the first of all */
		cmocka_unit_test(a_truncated_file_reads_as_zeros_and_marks_the_memory_broken),
		cmocka_unit_test(pages_that_go_are_replaced_where_there_is_no_room_for_all),
		cmocka_unit_test(a_slot_that_changes_hands_is_nobodys_meanwhile),
		cmocka_unit_test(a_fault_elsewhere_keeps_its_default_action),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
