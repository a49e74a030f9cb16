// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool listed(const unsigned *cpus, unsigned n, unsigned cpu)
{
	for (unsigned i = 0; i < n; i++) {
		if (cpus[i] == cpu)
			return true;
	}
	return false;
}

static const char *parse_number(const char *p, unsigned *ret_value)
{
	char *end;
	unsigned long v;

	if (*p < '0' || *p > '9')
		return NULL;
	errno = 0;
	v = strtoul(p, &end, 10);
	if (errno || v >= CPU_SETSIZE)
		return NULL;
	*ret_value = (unsigned)v;
	return end;
}

int cpu_list_parse(const char *text, unsigned max, unsigned *ret_cpus, struct error *err)
{
	const char *p = text;
	cpu_set_t usable;
	unsigned n = 0;

	CPU_ZERO(&usable);
	sched_getaffinity(0, sizeof(usable), &usable);
	for (;;) {
		unsigned first = 0, last;

		p = parse_number(p, &first);
		last = first;
		if (p && *p == '-')
			p = parse_number(p + 1, &last);
		if (!p || last < first || (*p && *p != ','))
			return error_set(err, EINVAL,
					 "'%s' is not a list of CPUs; write it as 0-3,8", text);
		for (unsigned cpu = first; cpu <= last; cpu++) {
			if (!CPU_ISSET(cpu, &usable))
				return error_set(err, ENODEV,
						 "CPU %u is not available; see taskset -p $$", cpu);
			if (n == max || listed(ret_cpus, n, cpu))
				return error_set(err, EINVAL,
						 "'%s' names CPU %u twice or too many CPUs", text,
						 cpu);
			ret_cpus[n++] = cpu;
		}
		if (!*p)
			return (int)n;
		p++;
	}
}

unsigned cpu_available(void)
{
	cpu_set_t usable;

	if (sched_getaffinity(0, sizeof(usable), &usable))
		return 1;
	return (unsigned)CPU_COUNT(&usable);
}

/* cpu.max is 'max 100000' or '50000 100000': microseconds of each so many. */
static unsigned quota_in(const char *path)
{
	unsigned long long quota, period;
	FILE *file = fopen(path, "re");
	int n;

	if (!file)
		return CPU_NO_QUOTA;
	n = fscanf(file, "%llu %llu", &quota, &period);
	fclose(file);
	if (n != 2 || !period || quota / period > CPU_SETSIZE)
		return CPU_NO_QUOTA;
	return (unsigned)(quota * 1000 / period);
}

unsigned cpu_quota_of(const char *root, const char *group)
{
	size_t len = strlen(group);
	unsigned least = CPU_NO_QUOTA;

	for (;;) {
		char path[PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s%.*s/cpu.max", root, (int)len, group);

		if (n > 0 && (size_t)n < sizeof(path))
			least = MIN(least, quota_in(path));
		if (!len)
			return least;
		while (group[--len] != '/' && len)
			;
	}
}

unsigned cpu_quota(void)
{
	unsigned quota = CPU_NO_QUOTA;
	char line[PATH_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "0::/", 4) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		quota = cpu_quota_of("/sys/fs/cgroup", line + 3);
	}
	if (file)
		fclose(file);
	return quota;
}

int cpu_pin_self(unsigned cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return -pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}
