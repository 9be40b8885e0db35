/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile - what jobs needed when they ran, so that the next run is known before it has shown it.
 *
 * A job is known by its name and its programs. A session is recognised from its first program on
 * and for as long as all it has compiled belongs to a remembered run. The store is bounded: what
 * was not run for longest is forgotten first.
 *
 * Owns: the profiles. Threads: none. The caller serialises calls; only saving does I/O after
 * opening, and a copy can be saved while the original changes.
 */
#ifndef SAL_SERVICE_PROFILE_H
#define SAL_SERVICE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "compile/store/image.h"
#include "wire/messages.h"

#define SVC_PROFILES_MAX 1000
#define SVC_PROFILE_PROGRAMS 64

struct svc_program_key {
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES];
};

/* Programs in order of first use; those beyond the room do not count. */
struct svc_program_keys {
	uint32_t count;
	struct svc_program_key at[SVC_PROFILE_PROGRAMS];
};

struct svc_profile {
	TAILQ_ENTRY(svc_profile) link; /* in a svc_profile_list */
	char name[SAL_NAME_BYTES];
	uint64_t persist_bytes, ephem_bytes; /* the most it held, the largest scratch */
	uint64_t iteration_ns; /* mean device time of one */
	uint64_t iterations, total_ns; /* of the whole run */
	uint32_t runs;
	struct svc_program_keys programs;
};

/* The latest run first. */
TAILQ_HEAD(svc_profile_list, svc_profile);

struct svc_profiles;

/* True if the key is new and there was room for it. */
bool svc_program_keys_add(struct svc_program_keys *keys,
			  const uint8_t bytes[SAL_PROGRAM_KEY_BYTES]);

/*
 * path: where they are kept, in a directory that exists; NULL: in memory alone. A file that is not
 * there, or cannot be trusted or understood, counts as empty; the latter is logged. Fails only for
 * lack of memory.
 */
int svc_profiles_open(const char *path, uint32_t max_count, struct svc_profiles **out_profiles,
		      struct sal_err *err);
/* Does not save. Accepts NULL. */
void svc_profiles_close(struct svc_profiles *p);
/* NULL for lack of memory. */
struct svc_profiles *svc_profiles_copy(const struct svc_profiles *p);

/* The latest run of that name that had all of these programs, if any; NULL: none. */
const struct svc_profile *svc_profiles_match(const struct svc_profiles *p, const char *name,
					     const struct svc_program_keys *programs);

/*
 * A job ended. The run takes the place of the one with the same name and programs. If it took less
 * than half as long, or compiled only some of the programs besides, it is taken for a part of that
 * run: it may raise the sizes and changes nothing else. run->runs and the link are not read.
 */
int svc_profiles_remember(struct svc_profiles *p, const struct svc_profile *run);

/* Replaces the file as a whole or not at all; does nothing if they are in memory alone. */
int svc_profiles_save(const struct svc_profiles *p, struct sal_err *err);

#endif
