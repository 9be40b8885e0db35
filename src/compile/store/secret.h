/* SPDX-License-Identifier: Apache-2.0 */
/* secret - the user's key for sealing programs: a file that only the user can read. */
#ifndef SAL_COMPILE_SECRET_H
#define SAL_COMPILE_SECRET_H

#include "compile/store/seal.h"

#define SAL_SECRET_NAME "secret"

/*
 * Reads the secret from a directory, or makes one. If several processes make one at the same time,
 * one of them wins, and all get the winner's secret. A secret that others could have read, or that
 * is damaged, is replaced; programs sealed with the old secret become useless. Fails if the secret
 * can be neither read nor written.
 */
int sal_secret_load(int dir_fd, uint8_t out_secret[SAL_SEAL_SECRET_BYTES]);

#endif
