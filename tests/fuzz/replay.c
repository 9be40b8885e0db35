/* SPDX-License-Identifier: Apache-2.0 */
/* replay - runs a harness once over every file in a folder. Fails if the folder has no file. */
#include <dirent.h>
#include <stdio.h>

#include "fuzz/fuzz.h"

static int replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = NULL;
	size_t size = 0;

	if (!file)
		return -1;
	for (;;) {
		uint8_t *more = realloc(data, size + 4096);
		size_t n;

		if (!more)
			abort();
		data = more;
		n = fread(data + size, 1, 4096, file);
		size += n;
		if (n < 4096)
			break;
	}
	(void)fclose(file);
	(void)LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	const struct dirent *entry;
	int count = 0;

	if (!dir) {
		(void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	while ((entry = readdir(dir))) {
		char path[4096];

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		if (replay_file(path) < 0) {
			(void)fprintf(stderr, "%s: cannot be read\n", path);
			return 1;
		}
		count++;
	}
	(void)closedir(dir);
	(void)printf("%d inputs\n", count);
	return count == 0;
}
