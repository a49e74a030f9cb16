// SPDX-License-Identifier: Apache-2.0
#include "base/inherit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int *inherited;
static unsigned inherited_n;

static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static void note(int fd)
{
	int *grown = reallocarray(inherited, inherited_n + 1, sizeof(*grown));

	if (!grown)
		return;
	inherited = grown;
	inherited[inherited_n++] = fd;
}

void inherit_note(void)
{
	const struct dirent *entry;
	DIR *dir;

	open_standard();
	inherited_n = 0;
	dir = opendir("/proc/self/fd");
	while (dir && (entry = readdir(dir))) {
		int fd = atoi(entry->d_name); /* of "." and "..": 0 */

		if (fd > STDERR_FILENO && fd != dirfd(dir))
			note(fd);
	}
	if (dir)
		closedir(dir);
}

int inherit_take(int fd, struct error *err)
{
	for (unsigned i = 0; i < inherited_n; i++) {
		if (inherited[i] != fd)
			continue;
		inherited[i] = inherited[--inherited_n];
		return 0;
	}
	return error_set(err, EBADF,
			 "descriptor %d was not inherited, or another port has it; start "
			 "ringway with one for each port",
			 fd);
}

int inherit_own(int fd, struct error *err)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return error_set(err, errno, "the descriptor %d: %s", fd, strerror(errno));
	return 0;
}
