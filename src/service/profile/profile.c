/* SPDX-License-Identifier: Apache-2.0 */
#include "service/profile/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/log/log.h"
#include "service/profile/profile_file.h"

struct svc_profiles {
	struct svc_profile_list list; /* owned */
	uint32_t count, max_count;
	char *path; /* owned; NULL: in memory only */
};

/* The index of the key; keys->count: it is not there. */
static uint32_t find_key(const struct svc_program_keys *keys, const uint8_t *bytes)
{
	uint32_t i;

	for (i = 0; i < keys->count; i++)
		if (memcmp(keys->at[i].bytes, bytes, SAL_PROGRAM_KEY_BYTES) == 0)
			break;
	return i;
}

static bool has_key(const struct svc_program_keys *keys, const uint8_t *bytes)
{
	return find_key(keys, bytes) < keys->count;
}

/* Does `all` have all keys of `some`? Neither has a key twice. */
static bool has_keys(const struct svc_program_keys *all, const struct svc_program_keys *some)
{
	uint32_t i;

	if (some->count > all->count)
		return false;
	for (i = 0; i < some->count; i++)
		if (!has_key(all, some->at[i].bytes))
			return false;
	return true;
}

bool svc_program_keys_add(struct svc_program_keys *keys, const uint8_t bytes[SAL_PROGRAM_KEY_BYTES])
{
	if (keys->count == SVC_PROFILE_PROGRAMS || has_key(keys, bytes))
		return false;
	keys->paces[keys->count] = (struct sal_pace){ 0 };
	memcpy(keys->at[keys->count++].bytes, bytes, SAL_PROGRAM_KEY_BYTES);
	return true;
}

const struct sal_pace *svc_program_keys_pace(const struct svc_program_keys *keys,
					     const uint8_t bytes[SAL_PROGRAM_KEY_BYTES])
{
	uint32_t i = find_key(keys, bytes);

	return i < keys->count ? &keys->paces[i] : NULL;
}

void svc_program_keys_learn(struct svc_program_keys *keys,
			    const uint8_t bytes[SAL_PROGRAM_KEY_BYTES], const struct sal_pace *pace)
{
	uint32_t i = find_key(keys, bytes);

	if (i < keys->count && pace->runs > 0)
		keys->paces[i] = *pace;
}

static void forget_oldest(struct svc_profiles *p)
{
	while (p->count > p->max_count) {
		struct svc_profile *oldest = TAILQ_LAST(&p->list, svc_profile_list);

		TAILQ_REMOVE(&p->list, oldest, link);
		free(oldest);
		p->count--;
	}
}

static struct svc_profiles *create(const char *path, uint32_t max_count)
{
	struct svc_profiles *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	TAILQ_INIT(&p->list);
	p->max_count = max_count;
	p->path = path ? strdup(path) : NULL;
	if (path && !p->path) {
		free(p);
		return NULL;
	}
	return p;
}

int svc_profiles_open(const char *path, uint32_t max_count, struct svc_profiles **out_profiles,
		      struct sal_err *err)
{
	struct svc_profiles *p = create(path, max_count);
	struct sal_err why = { 0 };
	const struct svc_profile *profile;

	*out_profiles = p;
	if (!p)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	if (path && svc_profile_file_read(path, &p->list, &why) < 0)
		sal_log_warn("profile", "remembered jobs are lost: %s", why.text);
	TAILQ_FOREACH(profile, &p->list, link)
		p->count++;
	forget_oldest(p);
	return SAL_OK;
}

void svc_profiles_close(struct svc_profiles *p)
{
	if (!p)
		return;
	svc_profile_list_clear(&p->list);
	free(p->path);
	free(p);
}

static struct svc_profile *add(struct svc_profile_list *list, const struct svc_profile *from)
{
	struct svc_profile *profile = malloc(sizeof(*profile));

	if (!profile)
		return NULL;
	*profile = *from;
	TAILQ_INSERT_TAIL(list, profile, link);
	return profile;
}

struct svc_profiles *svc_profiles_copy(const struct svc_profiles *p)
{
	struct svc_profiles *copy = create(p->path, p->max_count);
	const struct svc_profile *profile;

	if (!copy)
		return NULL;
	TAILQ_FOREACH(profile, &p->list, link) {
		if (!add(&copy->list, profile)) {
			svc_profiles_close(copy);
			return NULL;
		}
		copy->count++;
	}
	return copy;
}

const struct svc_profile *svc_profiles_match(const struct svc_profiles *p, const char *name,
					     const struct svc_program_keys *programs)
{
	const struct svc_profile *profile;

	TAILQ_FOREACH(profile, &p->list, link)
		if (strcmp(profile->name, name) == 0 && has_keys(&profile->programs, programs))
			return profile;
	return NULL;
}

static bool is_part(const struct svc_profile *run, const struct svc_profile *whole)
{
	return run->total_ns < whole->total_ns / 2;
}

/* Find the profile with the same programs, or else one that this run is a part of. */
static struct svc_profile *find_same(struct svc_profiles *p, const struct svc_profile *run)
{
	struct svc_profile *profile, *whole = NULL;

	TAILQ_FOREACH(profile, &p->list, link) {
		if (strcmp(profile->name, run->name) != 0 ||
		    !has_keys(&profile->programs, &run->programs))
			continue;
		if (profile->programs.count == run->programs.count)
			return profile;
		if (!whole && is_part(run, profile))
			whole = profile;
	}
	return whole;
}

static void raise_to(uint64_t *value, uint64_t least)
{
	if (*value < least)
		*value = least;
}

/* Paces are of single programs: also those of a partial run are good. */
static void merge_paces(struct svc_program_keys *keys, const struct svc_program_keys *run)
{
	uint32_t i;

	for (i = 0; i < run->count; i++)
		svc_program_keys_learn(keys, run->at[i].bytes, &run->paces[i]);
}

static void merge(struct svc_profile *profile, const struct svc_profile *run)
{
	merge_paces(&profile->programs, &run->programs);
	if (is_part(run, profile)) {
		raise_to(&profile->persist_bytes, run->persist_bytes);
		raise_to(&profile->ephem_bytes, run->ephem_bytes);
		return;
	}
	profile->persist_bytes = run->persist_bytes;
	profile->ephem_bytes = run->ephem_bytes;
	profile->iteration_ns = run->iteration_ns;
	profile->iterations = run->iterations;
	profile->total_ns = run->total_ns;
	profile->serves = run->serves;
	profile->runs++;
}

int svc_profiles_remember(struct svc_profiles *p, const struct svc_profile *run)
{
	struct svc_profile *profile = find_same(p, run);

	if (profile) {
		merge(profile, run);
	} else {
		profile = add(&p->list, run);
		if (!profile)
			return -SAL_RESOURCE_EXHAUSTED;
		profile->runs = 1;
		p->count++;
	}
	TAILQ_REMOVE(&p->list, profile, link);
	TAILQ_INSERT_HEAD(&p->list, profile, link);
	forget_oldest(p);
	return SAL_OK;
}

int svc_profiles_save(const struct svc_profiles *p, struct sal_err *err)
{
	return p->path ? svc_profile_file_write(p->path, &p->list, err) : SAL_OK;
}
