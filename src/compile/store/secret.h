/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret - the user's key for sealing programs, a file that only the user can read.
 */
#ifndef SAL_COMPILE_SECRET_H
#define SAL_COMPILE_SECRET_H

#include "compile/store/seal.h"

#define SAL_SECRET_NAME "secret"

/*
 * Reads the secret of a directory, or makes one. Of several that make one at the same time, one wins and
 * all get the winner's. One that others could have read, or that is damaged, is replaced, and all that was
 * sealed with it becomes worthless. Fails if none can be read or written.
 */
int sal_secret_load(int dir_fd, uint8_t out_secret[SAL_SEAL_SECRET_BYTES]);

#endif
