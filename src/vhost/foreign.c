// SPDX-License-Identifier: Apache-2.0
#include "vhost/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/atomic.h"
#include "guest/memory.h"

struct foreign {
	uint32_t refs; /* the owner's, and of threads, one for each descriptor that they close */
};

struct closing {
	struct foreign *owner;
	unsigned n;
	int fd[];
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

static void *close_one(void *fd)
{
	close((int)(intptr_t)fd);
	return NULL;
}

/* Those that do close, whoever sent them. */
static bool close_known(int fd)
{
	bool memory = guest_is_memory_file(fd);
	char name[32];

	if (memory && guest_is_large_file(fd))
		apart_do(close_one, (void *)(intptr_t)fd);
	else if (memory ||
		 (!name_of(fd, name) && (names_eventfd(name) || !strncmp(name, "pipe:", 5))))
		close(fd);
	else
		return false;
	return true;
}

static void give_back(struct foreign *f, unsigned refs)
{
	if (references_last(&f->refs, refs))
		free(f);
}

void foreign_put(struct foreign *f)
{
	if (f)
		give_back(f, 1);
}

static void *close_all(void *arg)
{
	struct closing *c = arg;

	for (unsigned i = 0; i < c->n; i++)
		close(c->fd[i]);
	give_back(c->owner, c->n);
	free(c);
	return NULL;
}

/* Room for `n` descriptors of the one at *f. */
static struct closing *closing_of(struct foreign **f, unsigned n)
{
	struct closing *c = malloc(sizeof(*c) + n * sizeof(c->fd[0]));

	if (c && !*f) {
		*f = malloc(sizeof(**f));
		if (*f)
			(*f)->refs = 1;
	}
	if (!c || !*f) {
		free(c);
		return NULL;
	}
	c->owner = *f;
	c->n = 0;
	return c;
}

void foreign_close(struct foreign **f, const int *fds, unsigned n)
{
	struct closing *c = NULL;

	for (unsigned i = 0; i < n; i++) {
		if (fds[i] < 0 || close_known(fds[i]))
			continue;
		if (!c)
			c = closing_of(f, n - i);
		if (c)
			c->fd[c->n++] = fds[i];
		else
			close(fds[i]); /* there is no memory */
	}
	if (!c)
		return;
	add_relaxed(&c->owner->refs, c->n);
	apart_do(close_all, c);
}

void foreign_hang_up(struct foreign **f, int sock)
{
	int unread;

	shutdown(sock, SHUT_RDWR); /* so that nothing comes after the look */
	if (!ioctl(sock, FIONREAD, &unread) && !unread)
		close(sock);
	else
		foreign_close(f, &sock, 1);
}

unsigned foreign_pending(const struct foreign *f)
{
	return f ? load_acquire(&f->refs) - 1 : 0; /* partner: references_last() */
}
