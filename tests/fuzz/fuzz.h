/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz - a harness is a file with this one function. It returns 0 and keeps nothing; what is wrong
 * aborts.
 *
 * Built twice: with replay.c, by every compiler, to run over corpus/<name>/ as a test; and with
 * libFuzzer (preset fuzz) to look for more.
 */
#ifndef SAL_TESTS_FUZZ_FUZZ_H
#define SAL_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy on the heap that is exactly as large, so that a step beyond is seen. To be freed. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
	void *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

/* Makes sure that the bytes can be read. */
static inline void fuzz_touch(const void *at, size_t size)
{
	const volatile unsigned char *bytes = at;

	for (size_t i = 0; i < size; i++)
		(void)bytes[i];
}

#endif
