/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/compile/folder.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int folder_make(void **state)
{
	const char *base = getenv("TMPDIR");
	char path[FOLDER_PATH];

	(void)snprintf(path, sizeof(path), "%s/salus-test-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(path))
		return -1;
	*state = strdup(path);
	return *state ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

int folder_remove(void **state)
{
	int rc = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	free(*state);
	return rc;
}

void folder_path(const char *folder, const char *name, char out_path[FOLDER_PATH])
{
	(void)snprintf(out_path, FOLDER_PATH, "%s/%s", folder, name);
}
