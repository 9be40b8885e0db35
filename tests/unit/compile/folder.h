/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folder - a fixture: each test has a new folder, which is removed after the test. *state is its
 * path.
 */
#ifndef SAL_TESTS_FOLDER_H
#define SAL_TESTS_FOLDER_H

#define FOLDER_PATH 512

int folder_make(void **state);
int folder_remove(void **state);

void folder_path(const char *folder, const char *name, char out_path[FOLDER_PATH]);

#endif
