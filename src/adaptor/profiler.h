/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler - PJRT's Profiler extension: lets frameworks profile a job.
 *
 * Frameworks ask every plugin for its part of a profile. PyTorch/XLA crashes if a plugin has no such
 * extension, JAX skips the plugin. Our part shows what the daemon did with the job's iterations: see
 * timeline.h. `salus trace` shows all jobs.
 */
#ifndef SAL_ADAPTOR_PROFILER_H
#define SAL_ADAPTOR_PROFILER_H

#include <stdint.h>

#include "adaptor/function.h"

struct adp_profiler_api;

struct adp_profiler_extension {
	PJRT_Extension_Base base;
	const struct adp_profiler_api *api;
	int64_t trace_context; /* for extensions of the arguments of a call only */
};

/* The last of the list of extensions. */
extern const struct adp_profiler_extension adp_profiler;

#endif
