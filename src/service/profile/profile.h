/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile - needs of earlier runs of jobs, to predict the needs of the next run.
 *
 * A job is known by its name and its programs. A session matches a profile as long as the profile
 * has all programs that the session has compiled. The number of profiles is limited: the profile
 * whose last run is oldest is forgotten first.
 *
 * Owns: the profiles. Threads: none. The caller serialises calls. After opening, only saving does
 * I/O. A copy can be saved while the original changes.
 */
#ifndef SAL_SERVICE_PROFILE_H
#define SAL_SERVICE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "compile/store/image.h"
#include "core/job.h"
#include "wire/messages.h"

#define SVC_PROFILES_MAX 1000
#define SVC_PROFILE_PROGRAMS 64

struct svc_program_key {
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES];
};

/* Programs in order of first use. Programs beyond SVC_PROFILE_PROGRAMS do not count. */
struct svc_program_keys {
	uint32_t count;
	struct svc_program_key at[SVC_PROFILE_PROGRAMS];
	/* What the engine learned about each program; runs is 0 if that is nothing. */
	struct sal_pace paces[SVC_PROFILE_PROGRAMS];
};

struct svc_profile {
	TAILQ_ENTRY(svc_profile) link; /* in a svc_profile_list */
	char name[SAL_NAME_BYTES];
	uint64_t persist_bytes, ephem_bytes; /* the largest memory held, the largest scratch */
	uint64_t iteration_ns; /* mean device time of an iteration */
	uint64_t iterations, total_ns; /* of the whole run */
	uint32_t runs;
	bool serves; /* its kind was inference at the end */
	struct svc_program_keys programs;
};

/* The latest run first. */
TAILQ_HEAD(svc_profile_list, svc_profile);

struct svc_profiles;

/* True if the key is new and there was room for it. */
bool svc_program_keys_add(struct svc_program_keys *keys,
			  const uint8_t bytes[SAL_PROGRAM_KEY_BYTES]);

/* The pace of the program with this key; NULL: there is no such program. */
const struct sal_pace *svc_program_keys_pace(const struct svc_program_keys *keys,
					     const uint8_t bytes[SAL_PROGRAM_KEY_BYTES]);
/* Replace the pace of a program. Does nothing if there is no such program, or no run yet. */
void svc_program_keys_learn(struct svc_program_keys *keys,
			    const uint8_t bytes[SAL_PROGRAM_KEY_BYTES],
			    const struct sal_pace *pace);

/*
 * path is the file of the profiles, in a directory that exists; NULL: keep them in memory only. A
 * missing file counts as empty. So does a file that cannot be trusted or understood; this is
 * logged. Fails only for lack of memory.
 */
int svc_profiles_open(const char *path, uint32_t max_count, struct svc_profiles **out_profiles,
		      struct sal_err *err);
/* Does not save. Accepts NULL. */
void svc_profiles_close(struct svc_profiles *p);
/* NULL for lack of memory. */
struct svc_profiles *svc_profiles_copy(const struct svc_profiles *p);

/* The latest run with this name that had all of these programs; NULL: none. */
const struct svc_profile *svc_profiles_match(const struct svc_profiles *p, const char *name,
					     const struct svc_program_keys *programs);

/*
 * Remember the run of a job that ended. The run replaces the profile with the same name and
 * programs. A run counts as partial if it took less than half as long as a profile with the same
 * name and had the same programs, or some of them. A partial run may raise the sizes of that
 * profile, and makes it the latest. The paces of the run's programs replace those of the profile, as
 * far as the run knows them. run->runs and the link are not read.
 */
int svc_profiles_remember(struct svc_profiles *p, const struct svc_profile *run);

/* Replace the whole file, or nothing. Does nothing if there is no path. */
int svc_profiles_save(const struct svc_profiles *p, struct sal_err *err);

#endif
