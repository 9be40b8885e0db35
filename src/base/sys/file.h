/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file - replaces a file as a whole.
 *
 * The new contents go into a temporary file in the same directory, which then takes the name.
 * Whoever opens the name finds the old file or the new one, never a part. Names are relative to
 * dir_fd, which may be AT_FDCWD.
 */
#ifndef SAL_BASE_SYS_FILE_H
#define SAL_BASE_SYS_FILE_H

#include <stdbool.h>

/*
 * Makes a new file that only this user can read, open for writing. -1 and errno if the name exists.
 */
int sal_file_create(int dir_fd, const char *name);

/*
 * Gives the temporary file its name. If it is not complete, or that fails, removes it instead and
 * returns false; errno is then that of the first failure.
 */
bool sal_file_replace(int dir_fd, const char *temp, const char *name, bool is_complete);

#endif
