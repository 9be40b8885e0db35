/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity - which compiler made a program, and for what: a hash that goes into every key and every seal.
 *
 * Plugins say little of themselves: several call themselves "cpu" and have the same version, and programs of one end
 * another's process. So the plugin's file counts, and not only its words. The file has hundreds of megabytes: its size,
 * its time and samples of its contents are hashed, which takes milliseconds. A plugin that was installed again, from
 * the same package, may be taken for another one; that costs compilations, no more.
 */
#ifndef SAL_COMPILE_IDENTITY_H
#define SAL_COMPILE_IDENTITY_H

#include <stdint.h>

#include "base/facts.h"

#define SAL_IDENTITY_BYTES 32

struct sal_identity_source {
	const char *plugin_path; /* a file, or "fake" */
	struct sal_text platform_version, device_kind;
	uint32_t api_major, api_minor;
};

/* A file that cannot be read is like no other: the identity then is a new one each time. */
void sal_identity_make(const struct sal_identity_source *source,
		       uint8_t out_identity[SAL_IDENTITY_BYTES]);

#endif
