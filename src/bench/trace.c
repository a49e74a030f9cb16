// SPDX-License-Identifier: Apache-2.0
#include "bench/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int trace_create(const char *path, FILE **ret, struct error *err)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return error_set(err, errno, "%s: %s; give a file that can be written", path,
				 strerror(errno));
	*ret = file;
	return 0;
}

int trace_write(FILE *file, const char *what, const uint64_t *when, unsigned n, struct error *err)
{
	fprintf(file, "# %s\n", what);
	for (unsigned i = 0; i < n; i++)
		fprintf(file, "%" PRIu64 "\n", i ? when[i] - when[i - 1] : 0);
	if (fflush(file) || ferror(file))
		return error_set(err, EIO, "the trace cannot be written: %s", strerror(errno));
	return 0;
}

int trace_read(const char *path, uint64_t when[TRACE_FRAMES], struct error *err)
{
	FILE *file = fopen(path, "re");
	uint64_t now = 1, gap;
	unsigned n = 0;
	char what[256];
	bool whole;

	if (!file)
		return error_set(err, errno, "%s: %s", path, strerror(errno));
	whole = fgets(what, sizeof(what), file) && *what == '#';
	while (whole && n < TRACE_FRAMES && fscanf(file, "%" SCNu64, &gap) == 1)
		when[n++] = now += gap;
	whole = whole && n && fscanf(file, " %*c") == EOF;
	fclose(file);
	return whole ? (int)n : error_set(err, EINVAL, "%s is no trace; see bench/trace.h", path);
}
