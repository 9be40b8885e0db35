/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save - write a file under a temporary name and rename it: the file is complete, or as it was
 * before.
 */
#ifndef SAL_CLI_SAVE_H
#define SAL_CLI_SAVE_H

#include <stdio.h>

#include "base/err.h"

/* Writes the contents. cli_save itself checks for errors of the file. */
typedef int cli_write_fn(FILE *out, const void *what, struct sal_err *err);

/* A pipe or a device is written to directly; a file is replaced. */
int cli_save(const char *path, cli_write_fn *write, const void *what, struct sal_err *err);

#endif
