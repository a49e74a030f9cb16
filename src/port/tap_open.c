// SPDX-License-Identifier: Apache-2.0
/*
 * A queue of a tap device is an open file that was attached to it by name. All files of a device
 * must agree on whether it is one of several queues, which was settled by whoever made it: a device
 * of one queue is attached either way, with the flag that it has.
 */
#include "port/tap_open.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/inherit.h"
#include "net/vnet_hdr.h"

#define TUN_PATH "/dev/net/tun"
#define FLAGS	 (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)
/* What the kernel may leave to its receivers. */
#define OFFLOADS (TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)

/* The kernel wants both or none; its headers have them since 6.2. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

bool tap_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= IFNAMSIZ || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (const char *c = name; *c; c++) {
		/* A '%' would have the kernel make a name up. */
		if (isspace((unsigned char)*c) || strchr("/:%", *c))
			return false;
	}
	return true;
}

static void request_init(struct ifreq *ifr, const char *name)
{
	memset(ifr, 0, sizeof(*ifr));
	memcpy(ifr->ifr_name, name, strnlen(name, IFNAMSIZ - 1));
}

/* A request about a network device by name; any socket will do. */
static int device_ioctl(unsigned long request, struct ifreq *ifr)
{
	int r, sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return -errno;
	r = ioctl(sock, request, ifr) < 0 ? -errno : 0;
	close(sock);
	return r;
}

static bool device_exists(const char *name)
{
	struct ifreq ifr;

	request_init(&ifr, name);
	return device_ioctl(SIOCGIFINDEX, &ifr) != -ENODEV;
}

static int bring_up(const char *name)
{
	struct ifreq ifr;
	int r;

	request_init(&ifr, name);
	r = device_ioctl(SIOCGIFFLAGS, &ifr);
	if (r < 0)
		return r;
	ifr.ifr_flags |= IFF_UP;
	return device_ioctl(SIOCSIFFLAGS, &ifr);
}

static int open_tun(int *ret_fd, struct error *err)
{
	int fd = open(TUN_PATH, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	switch (errno) {
	case ENOENT:
	case ENODEV:
	case ENXIO:
		return error_set(err, errno,
				 "there is no " TUN_PATH
				 ": as root say 'modprobe tun'; a container "
				 "must be given the device");
	case EACCES:
	case EPERM:
		return error_set(err, errno,
				 TUN_PATH " may not be opened: as root say 'chmod 0666 " TUN_PATH
					  "'; a container or systemd unit must allow the device");
	case EMFILE:
	case ENFILE:
		return error_set(err, errno,
				 "no descriptors left for " TUN_PATH
				 "; raise the limit (ulimit -n)");
	default:
		return error_set(err, errno, TUN_PATH ": %s", strerror(errno));
	}
}

static int attach(int fd, const char *name, int flags)
{
	struct ifreq ifr;

	request_init(&ifr, name);
	ifr.ifr_flags = (short)flags;
	return ioctl(fd, TUNSETIFF, &ifr) < 0 ? -errno : 0;
}

static int attach_error(const char *name, bool existed, int r, struct error *err)
{
	switch (-r) {
	case EPERM:
	case EACCES:
		if (existed)
			return error_set(
				err, -r,
				"the device %s belongs to another user: make it with 'ip tuntap "
				"add dev %s mode tap user NAME', or give ringway CAP_NET_ADMIN "
				"(and --keep-net-admin if it runs already)",
				name, name);
		return error_set(
			err, -r,
			"no device %s here and no right to make it: say 'ip -n NETNS link set %s "
			"netns 1' if it was moved, or 'ip tuntap add dev %s mode tap user NAME', "
			"as root; or give CAP_NET_ADMIN (and --keep-net-admin)",
			name, name, name);
	case EBUSY:
		return error_set(
			err, -r,
			"the device %s is in use, by another port or process: end that, or "
			"choose another dev=",
			name);
	case E2BIG:
		return error_set(err, -r,
				 "the device %s has too few queues left: others have it open too; "
				 "use a lower queues= or another dev=",
				 name);
	case EINVAL:
		return error_set(err, -r,
				 "%s is not a tap device, see 'ip -d link show dev %s'; choose "
				 "another dev=",
				 name, name);
	default:
		return error_set(err, -r, "cannot open the device %s: %s", name, strerror(-r));
	}
}

/* The first queue: finds out whether the device has one or several, by trying. */
static int attach_first(int fd, const char *name, bool several, bool existed, int *ret_flags,
			struct error *err)
{
	int flags = FLAGS | (several ? IFF_MULTI_QUEUE : 0);
	int r = attach(fd, name, flags);

	if (r == -EINVAL) {
		flags ^= IFF_MULTI_QUEUE;
		r = attach(fd, name, flags);
		if (several && r != -EINVAL)
			return error_set(
				err, EINVAL,
				"the device %s has one queue: leave queues= out, or make it "
				"with 'ip tuntap add dev %s mode tap multi_queue'",
				name, name);
	}
	if (r < 0)
		return attach_error(name, existed, r, err);
	*ret_flags = flags;
	return 0;
}

static int configure(int fd, bool *ret_uso, struct error *err)
{
	int hdr_len = VNET_HDR_LEN;

	if (ioctl(fd, TUNSETVNETHDRSZ, &hdr_len) < 0)
		return error_set(err, errno, "the kernel's taps know no virtio-net header: %s",
				 strerror(errno));
	*ret_uso = !ioctl(fd, TUNSETOFFLOAD, OFFLOADS | TUN_F_USO4 | TUN_F_USO6);
	if (!*ret_uso && ioctl(fd, TUNSETOFFLOAD, OFFLOADS) < 0)
		return error_set(err, errno, "the kernel's taps refuse offloads: %s",
				 strerror(errno));
	return 0;
}

static void close_all(const int *fds, unsigned n)
{
	while (n--)
		close(fds[n]);
}

static int open_more(const char *name, int flags, unsigned queues, int *fds, unsigned *n,
		     bool *ret_uso, struct error *err)
{
	int r = configure(fds[0], ret_uso, err);

	while (!r && *n < queues) {
		r = open_tun(&fds[*n], err);
		if (r)
			break;
		++*n;
		r = attach(fds[*n - 1], name, flags);
		if (r)
			attach_error(name, true, r, err);
	}
	return r;
}

int tap_open(const char *name, unsigned queues, int *ret_fds, bool *ret_uso, struct error *err)
{
	bool existed = device_exists(name);
	unsigned n = 1;
	int flags = 0, r = open_tun(&ret_fds[0], err);

	if (r)
		return r;
	r = attach_first(ret_fds[0], name, queues > 1, existed, &flags, err);
	if (!r)
		r = open_more(name, flags, queues, ret_fds, &n, ret_uso, err);
	if (!r && !existed) {
		r = bring_up(name);
		if (r)
			error_set(err, -r, "cannot bring the device %s up: %s", name, strerror(-r));
	}
	if (r)
		close_all(ret_fds, n);
	return r;
}

/*
 * TUNGETIFF does not tell: IFF_NOFILTER is the same bit, and set while there is no filter. But a
 * write as long as the virtio-net header alone, of which only the first four bytes can be read, is
 * too short if these are the packet information (EINVAL), and else not to be read (EFAULT). No
 * frame comes of it either way.
 */
static bool has_no_pi(int fd)
{
	char info[sizeof(struct tun_pi)] = { 0 };
	struct iovec iov[2] = { { info, sizeof(info) } };
	int hdr_len;

	if (ioctl(fd, TUNGETVNETHDRSZ, &hdr_len) < 0)
		return true; /* it cannot be known */
	iov[1].iov_len = (size_t)hdr_len - sizeof(info);
	return writev(fd, iov, 2) >= 0 || errno != EINVAL;
}

/* What the device was not attached with, or NULL. */
static const char *missing_flag(int fd, short flags)
{
	if (!(flags & IFF_TAP))
		return "IFF_TAP";
	if (!(flags & IFF_VNET_HDR))
		return "IFF_VNET_HDR";
	return has_no_pi(fd) ? NULL : "IFF_NO_PI";
}

int tap_adopt(int fd, bool *ret_uso, struct error *err)
{
	const char *missing;
	struct ifreq ifr;
	int r = inherit_take(fd, err);

	if (r)
		return r;
	request_init(&ifr, "");
	if (ioctl(fd, TUNGETIFF, &ifr) < 0)
		return error_set(
			err, errno,
			"the descriptor %d is not an open tap device; inherit one that was "
			"attached with TUNSETIFF",
			fd);
	missing = missing_flag(fd, ifr.ifr_flags);
	if (missing)
		return error_set(
			err, EINVAL,
			"the descriptor %d was attached without %s; use IFF_TAP, IFF_NO_PI "
			"and IFF_VNET_HDR",
			fd, missing);
	if (ifr.ifr_flags & IFF_DETACH_QUEUE)
		return error_set(err, EINVAL,
				 "the descriptor %d is a queue that was detached; attach it first, "
				 "with TUNSETQUEUE",
				 fd);
	if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
		return error_set(err, EINVAL,
				 "the descriptor %d is not open for both reading and writing; "
				 "open " TUN_PATH " with O_RDWR",
				 fd);
	r = inherit_own(fd, err);
	return r ? r : configure(fd, ret_uso, err);
}

/* A tap can be written to if its link is up, wherever it is. */
enum tap_state tap_state(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	if (poll(&p, 1, 0) < 0 || p.revents & (POLLERR | POLLNVAL))
		return TAP_GONE;
	return p.revents & POLLOUT ? TAP_UP : TAP_DOWN;
}

void tap_name(int fd, char *ret_name)
{
	struct ifreq ifr;

	request_init(&ifr, "");
	if (!ioctl(fd, TUNGETIFF, &ifr))
		memcpy(ret_name, ifr.ifr_name, IFNAMSIZ);
}

/* There may be another device of that name here: the address tells. */
int tap_mtu(int fd)
{
	struct ifreq it, here;

	request_init(&it, "");
	if (ioctl(fd, TUNGETIFF, &it) < 0)
		return -1;
	request_init(&here, it.ifr_name);
	if (ioctl(fd, SIOCGIFHWADDR, &it) < 0 || device_ioctl(SIOCGIFHWADDR, &here) < 0 ||
	    memcmp(it.ifr_hwaddr.sa_data, here.ifr_hwaddr.sa_data, 6) != 0 ||
	    device_ioctl(SIOCGIFMTU, &here) < 0)
		return -1;
	return here.ifr_mtu;
}
