/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save - write a file by way of a temporary one, so that a file of that name is whole or as it was.
 */
#ifndef SAL_CLI_SAVE_H
#define SAL_CLI_SAVE_H

#include <stdio.h>

#include "base/err.h"

/* Writes all there is to write; what goes wrong with the file itself is seen by cli_save. */
typedef int cli_write_fn(FILE *out, const void *what, struct sal_err *err);

/* A pipe or a device is written to; anything else is replaced. */
int cli_save(const char *path, cli_write_fn *write, const void *what, struct sal_err *err);

#endif
