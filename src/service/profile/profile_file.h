/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_file - profiles on disk: one JSON file, of this user, replaced as a whole.
 */
#ifndef SAL_SERVICE_PROFILE_FILE_H
#define SAL_SERVICE_PROFILE_FILE_H

#include "service/profile/profile.h"

/*
 * Appends to the list what the file holds, in its order; nothing if there is no file. The list owns
 * the profiles. On failure it is as it was.
 */
int svc_profile_file_read(const char *path, struct svc_profile_list *list, struct sal_err *err);
int svc_profile_file_write(const char *path, const struct svc_profile_list *list,
			   struct sal_err *err);

/* Frees what is in the list. */
void svc_profile_list_clear(struct svc_profile_list *list);

#endif
