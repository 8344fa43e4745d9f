/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Runs a fuzz target without a fuzzer: over every file of the directories given, then over copies
 * of each with single bytes changed by a fixed rule (so that a plain test run goes a little beyond
 * the corpus, the same way each time). ROUNDS sets the number of changed copies of each file.
 */

#define INPUT_MAX      (4u * 1024 * 1024)
#define DEFAULT_ROUNDS 2000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void run_changed(uint8_t *data, size_t size, long rounds)
{
	static const uint8_t values[] = {0, 1, 2, 3, 4, 5, 0x7f, 0x80, 0xff};
	uint32_t state = (uint32_t)size;

	for (long i = 0; i < rounds && size > 0; i++) {
		const size_t at = next_random(&state) % size;
		const uint8_t old = data[at];
		const size_t cut = next_random(&state) % 4 ? size : next_random(&state) % size;
		data[at] = values[next_random(&state) % sizeof(values)];
		(void)LLVMFuzzerTestOneInput(data, cut);
		data[at] = old;
	}
}

static int run_file(const char *path, long rounds)
{
	FILE *f = fopen(path, "re");
	uint8_t *data = malloc(INPUT_MAX);

	if (!f || !data) {
		(void)fprintf(stderr, "cannot read '%s'\n", path);
		exit(1);
	}
	const size_t size = fread(data, 1, INPUT_MAX, f);
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput(data, size);
	run_changed(data, size, rounds);
	free(data);
	return 1;
}

static int run_directory(const char *path, long rounds)
{
	DIR *dir = opendir(path);
	int n = 0;

	if (!dir) {
		(void)fprintf(stderr, "cannot open '%s'\n", path);
		exit(1);
	}
	for (const struct dirent *d; (d = readdir(dir));) {
		char name[4096];
		if (d->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof(name), "%s/%s", path, d->d_name);
		n += run_file(name, rounds);
	}
	(void)closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	const char *env = getenv("ROUNDS");
	const long rounds = env ? strtol(env, NULL, 10) : DEFAULT_ROUNDS;
	int n = 0;

	for (int i = 1; i < argc; i++)
		n += run_directory(argv[i], rounds);
	(void)fprintf(stdout, "%d inputs, %ld changed copies of each\n", n, rounds);
	/* A corpus that got lost must not look like success. */
	return n == 0;
}
