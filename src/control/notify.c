// SPDX-License-Identifier: Apache-2.0
#include "control/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int notify_fd = -1;

int notify_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t len = path ? strlen(path) : 0;
	int fd, r;

	if (!len)
		return 0;
	if (len >= sizeof(addr.sun_path) || (*path != '/' && *path != '@'))
		return -EINVAL;
	memcpy(addr.sun_path, path, len);
	if (*path == '@')
		addr.sun_path[0] = '\0'; /* the abstract namespace; there the length counts */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len))) {
		r = -errno;
		close(fd);
		return r;
	}
	notify_fd = fd;
	return 0;
}

void notify_send(const char *state)
{
	if (notify_fd >= 0)
		send(notify_fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
}
