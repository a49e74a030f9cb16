// SPDX-License-Identifier: Apache-2.0
/*
 * Files. Each version of Landlock's interface knows more kinds of access. All that this kernel
 * knows are taken away, and then some given back beneath some directories. What is open already
 * stays usable.
 *
 * Debian 12 has no library for it, and headers older than many a kernel: hence the numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "sandbox/layers.h"

/* struct landlock_ruleset_attr of version 6; an older one takes it as long as the rest is 0. */
struct ruleset {
	uint64_t access_fs, access_net, scoped;
};

#define FS_TRUNCATE BIT(14) /* from version 3 */
#define FS_IOCTL    BIT(15) /* of devices, from version 5 */
#define FS_ALL	    (BIT(16) - 1)
#define NET_ALL	    3 /* TCP's bind and connect, from version 4 */
#define SCOPED_ALL  3 /* abstract sockets and signals, from version 6 */

static struct ruleset ruleset_of(long version)
{
	uint64_t fs = FS_ALL;

	if (version < 5)
		fs &= ~FS_IOCTL;
	if (version < 3)
		fs &= ~FS_TRUNCATE;
	if (version < 2)
		fs &= ~LANDLOCK_ACCESS_FS_REFER;
	return (struct ruleset){
		.access_fs = fs,
		.access_net = version < 4 ? 0 : NET_ALL,
		.scoped = version < 6 ? 0 : SCOPED_ALL,
	};
}

struct landlock {
	int fd;
	uint64_t handled;
};

/* Where it is no file of a file system (a pipe, a socket) there is nothing to allow. */
static int allow(const struct landlock *l, int fd, uint64_t access)
{
	struct landlock_path_beneath_attr rule = {
		.allowed_access = access & l->handled,
		.parent_fd = fd,
	};

	if (syscall(SYS_landlock_add_rule, l->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return errno == EBADFD ? 0 : -errno;
	return 0;
}

/* What is not there needs no rule. */
static int allow_path(const struct landlock *l, const char *path, uint64_t access)
{
	int r, fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return 0;
	r = allow(l, fd, access);
	close(fd);
	return r;
}

static int allow_what_is_needed(const struct landlock *l, const struct sandbox *sandbox)
{
	const uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE, write = LANDLOCK_ACCESS_FS_WRITE_FILE;
	const uint64_t sockets = LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE;
	int r = allow(l, STDERR_FILENO, write); /* the log opens a terminal for each line */

	for (unsigned i = 0; !r && i < sandbox->n_dirs; i++)
		r = allow_path(l, sandbox->dirs[i], sockets);
	/* The directory, since the file comes when the module is loaded. */
	if (!r)
		r = allow_path(l, "/dev/net", read | write | FS_IOCTL);
	if (!r)
		r = allow_path(l, "/etc/group", read);
	if (!r)
		r = allow_path(l, "/etc/nsswitch.conf", read);
	if (!r && SANDBOX_SANITIZED)
		r = allow_path(l, "/", read | LANDLOCK_ACCESS_FS_READ_DIR);
#ifdef SANDBOX_COVERAGE
	if (!r)
		r = allow_path(l, SANDBOX_COVERAGE,
			       read | write | LANDLOCK_ACCESS_FS_MAKE_REG | FS_TRUNCATE);
#endif
	return r;
}

int landlock_enter(const struct sandbox *sandbox, struct error *err)
{
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset ruleset = ruleset_of(version);
	struct landlock l = { .handled = ruleset.access_fs };
	int r;

	if (version < 0) {
		log_event(LOG_WARN, NULL,
			  "this kernel offers no Landlock (%s): files are not confined",
			  error_reason(errno));
		return 0;
	}
	l.fd = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof(ruleset), 0);
	r = l.fd < 0 ? -errno : allow_what_is_needed(&l, sandbox);
	if (!r && syscall(SYS_landlock_restrict_self, l.fd, 0) < 0)
		r = -errno;
	if (l.fd >= 0)
		close(l.fd);
	if (r)
		return error_set(err, -r, "cannot confine files (Landlock): %s", error_reason(-r));
	log_event(LOG_DEBUG, NULL, "files are confined by Landlock, version %ld", version);
	return 0;
}
