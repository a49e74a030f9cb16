// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a fuzz target without a fuzzer: over its seeds, what a directory (its corpus) holds, and,
 * with random numbers that are always the same, mutations of both. Files are run as they are;
 * `--write DIR` writes the seeds there, a corpus to begin with.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

#define MUTATIONS 3000 /* of each seed */
#define AGAIN	  100  /* of what the corpus holds */

static uint8_t seed[FUZZ_INPUT_MAX];

static uint32_t next_random(void)
{
	static uint32_t x = 2463534242u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return x;
}

/* In memory of its own size, for the address sanitizer. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	fuzz_check(copy);
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_mutations(size_t size, unsigned times)
{
	uint8_t mutated[FUZZ_INPUT_MAX];

	for (unsigned i = 0; i < times; i++) {
		size_t n = i % 4 ? size : next_random() % (size + 1);

		memcpy(mutated, seed, size);
		for (unsigned k = 0; n && k <= i % 5; k++) {
			/* Headers come first: half of the changes hit the first 64 bytes. */
			size_t at = next_random() % (k % 2 ? n : n < 64 ? n : 64);

			mutated[at] = i % 3 ? (uint8_t)next_random()
					    : (uint8_t)(mutated[at] ^ 1u << next_random() % 8);
		}
		run(mutated, n);
	}
}

static int run_file(const char *path, unsigned mutations)
{
	FILE *file = fopen(path, "rb");
	size_t n;

	if (!file) {
		perror(path);
		return 1;
	}
	n = fread(seed, 1, sizeof(seed), file);
	fclose(file);
	run(seed, n);
	run_mutations(n, mutations);
	return 0;
}

static int run_folder(const char *path)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort), failed = 0;

	if (n < 0) {
		perror(path);
		return 1;
	}
	for (int i = 0; i < n; i++) {
		char file[4096];

		snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			failed |= run_file(file, AGAIN);
		free(entries[i]);
	}
	free(entries);
	return failed;
}

static int write_seed(const char *dir, unsigned i, size_t size)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/seed-%02u", dir, i);
	file = fopen(path, "wb");
	if (!file || fwrite(seed, 1, size, file) != size || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *write_to = argc == 3 && !strcmp(argv[1], "--write") ? argv[2] : NULL;
	bool only_files = false;
	int failed = 0;
	size_t size;

	for (int i = 1; i < argc && !write_to; i++) {
		struct stat st;
		bool folder = !stat(argv[i], &st) && S_ISDIR(st.st_mode);

		failed |= folder ? run_folder(argv[i]) : run_file(argv[i], 0);
		only_files |= !folder;
	}
	for (unsigned i = 0; !only_files && (size = fuzz_seed(i, seed)); i++) {
		if (write_to) {
			failed |= write_seed(write_to, i, size);
			continue;
		}
		run(seed, size);
		run_mutations(size, MUTATIONS);
	}
	return failed;
}
