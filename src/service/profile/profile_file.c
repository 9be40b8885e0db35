/* SPDX-License-Identifier: Apache-2.0 */
#include "service/profile/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <sodium.h>

#include "base/sys/file.h"
#include "service/profile/profile.h"

#define VERSION 1
#define FILE_BYTES_MAX (16 << 20)
#define KEY_DIGITS ((size_t)2 * SAL_PROGRAM_KEY_BYTES)
/* The program cache is in the same directory, and removes such files after a crash. */
#define TEMP_NAME "tmp-profiles-XXXXXX"

void svc_profile_list_clear(struct svc_profile_list *list)
{
	struct svc_profile *profile;

	while ((profile = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, profile, link);
		free(profile);
	}
}

static bool parse_programs(const json_t *array, struct svc_program_keys *keys)
{
	uint8_t bytes[SAL_PROGRAM_KEY_BYTES];
	const json_t *item;
	size_t i;

	json_array_foreach(array, i, item)
	{
		const char *hex = json_string_value(item);

		if (!hex || strlen(hex) != KEY_DIGITS ||
		    sodium_hex2bin(bytes, sizeof(bytes), hex, KEY_DIGITS, NULL, NULL, NULL) != 0 ||
		    !svc_program_keys_add(keys, bytes))
			return false;
	}
	return keys->count > 0;
}

static bool is_count(json_int_t value)
{
	return value >= 0 && value <= UINT32_MAX;
}

static bool is_part(json_int_t milli)
{
	return milli >= 0 && milli <= 1000;
}

/* beside_ns is a time of the daemon that wrote the file: it is not in the file. */
static bool parse_pace(json_t *object, struct sal_pace *out)
{
	json_int_t alone, util, told, runs, alone_runs, beside_runs, scratch = 0;

	if (json_is_null(object))
		return true;
	if (json_unpack(object, "{s:I, s:I, s:I, s:I, s:I, s:I, s?:I}", "alone_ns", &alone,
			"util_milli", &util, "told_milli", &told, "runs", &runs, "alone_runs",
			&alone_runs, "beside_runs", &beside_runs, "scratch_bytes", &scratch) != 0)
		return false;
	if (alone < 0 || scratch < 0 || !is_part(util) || !is_part(told) || !is_count(runs) ||
	    !is_count(alone_runs) || !is_count(beside_runs))
		return false;
	*out = (struct sal_pace){
		.alone_ns = (uint64_t)alone,
		.scratch_bytes = (uint64_t)scratch,
		.util_milli = (uint32_t)util,
		.told_milli = (uint32_t)told,
		.runs = (uint32_t)runs,
		.alone_runs = (uint32_t)alone_runs,
		.beside_runs = (uint32_t)beside_runs,
	};
	return true;
}

/* Older files have no paces. */
static bool parse_paces(json_t *array, struct svc_program_keys *keys)
{
	json_t *item;
	size_t i;

	if (!array)
		return true;
	if (!json_is_array(array) || json_array_size(array) != keys->count)
		return false;
	json_array_foreach(array, i, item)
	{
		if (!parse_pace(item, &keys->paces[i]))
			return false;
	}
	return true;
}

static bool parse_profile(json_t *object, struct svc_profile *out)
{
	json_int_t persist, ephem, iteration, iterations, total, runs;
	const char *name;
	json_t *programs;

	memset(out, 0, sizeof(*out));
	if (json_unpack(object, "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "name", &name,
			"persist_bytes", &persist, "ephem_bytes", &ephem, "iteration_ns",
			&iteration, "iterations", &iterations, "total_ns", &total, "runs", &runs,
			"programs", &programs) != 0)
		return false;
	if (persist < 0 || ephem < 0 || iteration < 0 || iterations < 0 || total < 0 || runs < 0 ||
	    runs > UINT32_MAX || strlen(name) >= sizeof(out->name))
		return false;
	memcpy(out->name, name, strlen(name) + 1);
	out->persist_bytes = (uint64_t)persist;
	out->ephem_bytes = (uint64_t)ephem;
	out->iteration_ns = (uint64_t)iteration;
	out->iterations = (uint64_t)iterations;
	out->total_ns = (uint64_t)total;
	out->runs = (uint32_t)runs;
	out->serves = json_is_true(json_object_get(object, "serves")); /* older files lack it */
	return parse_programs(programs, &out->programs) &&
	       parse_paces(json_object_get(object, "paces"), &out->programs);
}

static int parse_root(json_t *root, struct svc_profile_list *list, struct sal_err *err)
{
	json_t *profiles, *object;
	json_int_t version;
	size_t i;

	if (json_unpack(root, "{s:I, s:o}", "version", &version, "profiles", &profiles) != 0 ||
	    !json_is_array(profiles))
		return sal_err_set(err, SAL_DATA_LOSS, "it is damaged");
	if (version != VERSION)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "it is of version %" JSON_INTEGER_FORMAT ", not %d", version,
				   VERSION);
	json_array_foreach(profiles, i, object)
	{
		struct svc_profile *profile = malloc(sizeof(*profile));

		if (!profile)
			return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
		if (!parse_profile(object, profile)) {
			free(profile);
			return sal_err_set(err, SAL_DATA_LOSS, "it is damaged");
		}
		TAILQ_INSERT_TAIL(list, profile, link);
	}
	return SAL_OK;
}

/* NULL without an error: there is no file. */
static FILE *open_ours(const char *path, struct sal_err *err)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	FILE *file = NULL;

	if (fd < 0) {
		if (errno != ENOENT)
			(void)sal_err_set(err, SAL_UNAVAILABLE, "%s", strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		(void)sal_err_set(err, SAL_PERMISSION_DENIED, "it is not a file of this user");
	else if (st.st_size > FILE_BYTES_MAX)
		(void)sal_err_set(err, SAL_OUT_OF_RANGE, "it is larger than %d bytes",
				  FILE_BYTES_MAX);
	else
		file = fdopen(fd, "r");
	if (file)
		return file;
	(void)close(fd);
	if (err->code == 0)
		(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	return NULL;
}

int svc_profile_file_read(const char *path, struct svc_profile_list *list, struct sal_err *err)
{
	struct svc_profile_list found = TAILQ_HEAD_INITIALIZER(found);
	struct sal_err why = { 0 };
	json_error_t where;
	FILE *file = open_ours(path, &why);
	json_t *root;

	if (!file && why.code == 0)
		return SAL_OK;
	if (file) {
		root = json_loadf(file, JSON_REJECT_DUPLICATES, &where);
		(void)fclose(file);
		if (!root)
			(void)sal_err_set(&why, SAL_DATA_LOSS, "line %d: %s", where.line,
					  where.text);
		else
			(void)parse_root(root, &found, &why);
		json_decref(root);
	}
	if (why.code) {
		svc_profile_list_clear(&found);
		return sal_err_set(err, (enum sal_code)why.code, "%s: %s", path, why.text);
	}
	TAILQ_CONCAT(list, &found, link);
	return SAL_OK;
}

static json_int_t number(uint64_t value)
{
	return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static json_t *pack_programs(const struct svc_program_keys *keys)
{
	char hex[KEY_DIGITS + 1];
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < keys->count; i++) {
		(void)sodium_bin2hex(hex, sizeof(hex), keys->at[i].bytes, SAL_PROGRAM_KEY_BYTES);
		(void)json_array_append_new(array, json_string(hex));
	}
	return array;
}

static json_t *pack_pace(const struct sal_pace *pace)
{
	if (pace->runs == 0)
		return json_null();
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "alone_ns", number(pace->alone_ns),
			 "util_milli", (json_int_t)pace->util_milli, "told_milli",
			 (json_int_t)pace->told_milli, "runs", (json_int_t)pace->runs, "alone_runs",
			 (json_int_t)pace->alone_runs, "beside_runs", (json_int_t)pace->beside_runs,
			 "scratch_bytes", number(pace->scratch_bytes));
}

static json_t *pack_paces(const struct svc_program_keys *keys)
{
	json_t *array = json_array();
	uint32_t i;

	for (i = 0; i < keys->count; i++)
		(void)json_array_append_new(array, pack_pace(&keys->paces[i]));
	return array;
}

/* The file leaves out jobs whose names are not UTF-8, because JSON is UTF-8. */
static json_t *pack_list(const struct svc_profile_list *list)
{
	const struct svc_profile *p;
	json_t *array = json_array();

	TAILQ_FOREACH(p, list, link)
		(void)json_array_append_new(
			array,
			json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "name",
				  p->name, "persist_bytes", number(p->persist_bytes), "ephem_bytes",
				  number(p->ephem_bytes), "iteration_ns", number(p->iteration_ns),
				  "iterations", number(p->iterations), "total_ns",
				  number(p->total_ns), "runs", (json_int_t)p->runs, "serves",
				  p->serves, "programs", pack_programs(&p->programs), "paces",
				  pack_paces(&p->programs)));
	return json_pack("{s:i, s:o}", "version", VERSION, "profiles", array);
}

static bool write_file(int fd, const json_t *root)
{
	FILE *file = fdopen(fd, "w");
	bool fine;

	if (!file) {
		(void)close(fd);
		return false;
	}
	fine = json_dumpf(root, file, JSON_COMPACT) == 0 && fputc('\n', file) != EOF &&
	       fflush(file) == 0 && fsync(fd) == 0;
	return fclose(file) == 0 && fine;
}

static int replace(const char *path, char *temp, const json_t *root, struct sal_err *err)
{
	int fd = mkostemp(temp, O_CLOEXEC); /* mode 0600 */

	if (fd < 0)
		return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path, strerror(errno));
	errno = 0;
	if (sal_file_replace(AT_FDCWD, temp, path, write_file(fd, root)))
		return SAL_OK;
	return sal_err_set(err, SAL_UNAVAILABLE, "%s: %s", path,
			   errno ? strerror(errno) : "cannot be written");
}

int svc_profile_file_write(const char *path, const struct svc_profile_list *list,
			   struct sal_err *err)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash + 1 - path) : 0;
	size_t room = (size_t)folder + sizeof(TEMP_NAME);
	char *temp = malloc(room);
	json_t *root = pack_list(list);
	int rc;

	if (temp && root) {
		(void)snprintf(temp, room, "%.*s" TEMP_NAME, folder, path);
		rc = replace(path, temp, root, err);
	} else {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "out of memory");
	}
	json_decref(root);
	free(temp);
	return rc;
}
