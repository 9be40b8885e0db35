/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_file - profiles on disk: one JSON file that belongs to this user. Writing replaces it.
 */
#ifndef SAL_SERVICE_PROFILE_FILE_H
#define SAL_SERVICE_PROFILE_FILE_H

#include "service/profile/profile.h"

/*
 * Append the profiles of the file to the list, in the file's order. A missing file has none. The
 * list owns the profiles. A failure leaves the list unchanged.
 */
int svc_profile_file_read(const char *path, struct svc_profile_list *list, struct sal_err *err);
int svc_profile_file_write(const char *path, const struct svc_profile_list *list,
			   struct sal_err *err);

/* Free all profiles of the list. */
void svc_profile_list_clear(struct svc_profile_list *list);

#endif
