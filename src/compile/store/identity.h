/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity - a hash of the compiler and the device. It is part of every key and every seal.
 *
 * A plugin's own description is not enough: several plugins call themselves "cpu" with the same
 * version, and a program of one crashes another. So the hash covers the plugin's file. The file has
 * hundreds of megabytes, so its size, its time and samples of its contents are hashed, which takes
 * milliseconds. A plugin that is installed again from the same package may get another identity;
 * that only costs compilations.
 */
#ifndef SAL_COMPILE_IDENTITY_H
#define SAL_COMPILE_IDENTITY_H

#include <stdint.h>

#include "base/facts.h"

#define SAL_IDENTITY_BYTES 32

struct sal_identity_source {
	const char *plugin_path; /* a file, or "fake" */
	const char *const *plugin_options; /* ends with NULL; or NULL */
	struct sal_text platform_version, device_kind;
	uint32_t api_major, api_minor;
};

/* If the file cannot be read, the identity is a new one each time. */
void sal_identity_make(const struct sal_identity_source *source,
		       uint8_t out_identity[SAL_IDENTITY_BYTES]);

#endif
