/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/sys/file.h"

static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int cli_save(const char *path, cli_write_fn *write, const void *what, struct sal_err *err)
{
	bool special = is_special(path);
	char temporary[4096];
	FILE *file;
	int rc;

	if (snprintf(temporary, sizeof(temporary), special ? "%s" : "%s.partial", path) >=
	    (int)sizeof(temporary))
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "%.80s...: name too long", path);
	file = fopen(temporary, "we");
	if (!file)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	rc = write(file, what, err);
	if ((ferror(file) | fclose(file)) && rc >= 0)
		rc = sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	if (!special && !sal_file_replace(AT_FDCWD, temporary, path, rc >= 0) && rc >= 0)
		rc = sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	return rc;
}
