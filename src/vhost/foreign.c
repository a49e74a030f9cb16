// SPDX-License-Identifier: Apache-2.0
#include "vhost/foreign.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "guest/memory.h"

struct foreign {
	uint32_t refs; /* the owner's, and one for each descriptor that is not closed yet */
};

struct closing {
	struct foreign *owner;
	int fd;
};

/*
 * What /proc calls it, which no file system is asked for: the name of a file begins with a slash,
 * whatever it is. 0 or a negative errno.
 */
static int name_of(int fd, char name[32])
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, 31);
	if (n < 0)
		return -errno;
	name[n] = '\0';
	return 0;
}

static bool names_eventfd(const char *name)
{
	return !strcmp(name, "anon_inode:[eventfd]");
}

int foreign_is_eventfd(int fd)
{
	char name[32];
	int r = name_of(fd, name);

	return r ? r : names_eventfd(name);
}

static bool closes_at_once(int fd)
{
	char name[32];

	return guest_is_memory_file(fd) ||
	       (!name_of(fd, name) && (names_eventfd(name) || !strncmp(name, "pipe:", 5)));
}

void foreign_put(struct foreign *f)
{
	if (f && reference_last(&f->refs))
		free(f);
}

static void *close_one(void *arg)
{
	struct closing *c = arg;

	close(c->fd);
	foreign_put(c->owner);
	free(c);
	return NULL;
}

static bool close_apart(struct foreign *owner, int fd)
{
	struct closing *c = malloc(sizeof(*c));
	pthread_attr_t attr;
	sigset_t all;
	pthread_t thread;
	int r;

	if (!c)
		return false;
	*c = (struct closing){ owner, fd };
	add_relaxed(&owner->refs, 1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* a signal that it got might never be seen */
	pthread_attr_setsigmask_np(&attr, &all);
	r = pthread_create(&thread, &attr, close_one, c);
	pthread_attr_destroy(&attr);
	if (r) {
		foreign_put(owner);
		free(c);
	}
	return !r;
}

void foreign_close(struct foreign **f, int fd)
{
	if (closes_at_once(fd)) {
		close(fd);
		return;
	}
	if (!*f) {
		*f = malloc(sizeof(**f));
		if (*f)
			(*f)->refs = 1;
	}
	if (!*f || !close_apart(*f, fd))
		close(fd); /* without memory or threads it has to be */
}

void foreign_hang_up(struct foreign **f, int sock)
{
	int unread;

	shutdown(sock, SHUT_RDWR); /* so that nothing comes after the look */
	if (!ioctl(sock, FIONREAD, &unread) && !unread)
		close(sock);
	else
		foreign_close(f, sock);
}

unsigned foreign_pending(const struct foreign *f)
{
	return f ? load_acquire(&f->refs) - 1 : 0; /* partner: reference_last() */
}
