// SPDX-License-Identifier: Apache-2.0

#include "slow_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

#define PATIENCE_MS 60000
#define ROOM	    (1 << 17) /* FUSE wants that much for a request */
#define FILE_NODE   2
#define FILE_SIZE   0x10000

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
				   .nlink = 1,
				   .size = node == FILE_NODE ? FILE_SIZE : 0 };
}

static void answer(int dev, uint64_t unique, const void *payload, size_t n)
{
	struct fuse_out_header header = { .unique = unique, .len = (uint32_t)(sizeof(header) + n) };
	struct iovec iov[] = { { &header, sizeof(header) }, { (void *)payload, n } };

	if (writev(dev, iov, 2) < 0)
		perror("fuse");
}

/* A request is there. False when it has lasted too long: a test that failed must not hang too. */
static bool wait_for(int dev, uint64_t end)
{
	struct pollfd p = { .fd = dev, .events = POLLIN };

	while (clock_ns() < end) {
		if (poll(&p, 1, 100))
			return true;
	}
	return false;
}

/* Until the file is open; what comes then is read and forgotten. */
static void *serve(void *arg)
{
	struct slow_file *f = arg;
	char *request = malloc(ROOM);
	uint64_t end = clock_ns() + PATIENCE_MS * 1000000ull;
	bool opened = false;

	while (request && wait_for(f->dev, end) && read(f->dev, request, ROOM) > 0) {
		const struct fuse_in_header *in = (void *)request;
		struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					      .minor = FUSE_KERNEL_MINOR_VERSION,
					      .max_write = 4096 };
		struct fuse_entry_out entry = { .nodeid = FILE_NODE,
						.attr = attributes(FILE_NODE) };
		struct fuse_attr_out attr = { .attr = attributes(in->nodeid) };
		struct fuse_open_out open = { .fh = 1 };

		if (opened)
			continue;
		if (in->opcode == FUSE_INIT)
			answer(f->dev, in->unique, &init, sizeof(init));
		else if (in->opcode == FUSE_LOOKUP)
			answer(f->dev, in->unique, &entry, sizeof(entry));
		else if (in->opcode == FUSE_GETATTR)
			answer(f->dev, in->unique, &attr, sizeof(attr));
		else if (in->opcode == FUSE_OPEN)
			answer(f->dev, in->unique, &open, sizeof(open));
		opened = in->opcode == FUSE_OPEN;
	}
	free(request);
	umount2(f->folder, MNT_FORCE | MNT_DETACH);
	return NULL;
}

/* What a run that was killed has left behind. */
static void sweep(void)
{
	glob_t left;

	if (glob("/tmp/ringway-fuse-*-*", 0, NULL, &left))
		return;
	for (size_t i = 0; i < left.gl_pathc; i++) {
		int pid = atoi(left.gl_pathv[i] + strlen("/tmp/ringway-fuse-"));

		if (pid > 0 && kill(pid, 0) && errno == ESRCH) {
			umount2(left.gl_pathv[i], MNT_FORCE | MNT_DETACH);
			rmdir(left.gl_pathv[i]);
		}
	}
	globfree(&left);
}

bool slow_file_open(struct slow_file *f)
{
	char path[64], options[96];

	sweep();
	snprintf(f->folder, sizeof(f->folder), "/tmp/ringway-fuse-%d-XXXXXX", getpid());
	f->dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (f->dev < 0 || !mkdtemp(f->folder)) {
		fprintf(stderr, "no FUSE: %s\n", strerror(errno));
		return false;
	}
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", f->dev);
	if (mount("ringway-test", f->folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		fprintf(stderr, "FUSE cannot be mounted: %s\n", strerror(errno));
		rmdir(f->folder);
		close(f->dev);
		return false;
	}
	pthread_create(&f->server, NULL, serve, f);
	snprintf(path, sizeof(path), "%s/file", f->folder);
	f->fd = open(path, O_RDWR | O_CLOEXEC);
	return f->fd >= 0;
}

void slow_file_close(struct slow_file *f)
{
	/* That aborts the connection, and so the server's read. */
	umount2(f->folder, MNT_FORCE | MNT_DETACH);
	pthread_join(f->server, NULL);
	close(f->dev);
	close(f->fd);
	rmdir(f->folder);
}
