/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adaptor/client/devices.h"
#include "base/units.h"

/*
 * Thousandths of a decimal number, 0 if it is not a number. strtod would follow the locale: its
 * point may be a comma.
 */
static uint32_t read_weight(const char *text)
{
	uint64_t milli = 0;
	int digits = -1; /* after the point; -1: before it */

	for (; *text && milli < UINT32_MAX; text++) {
		if (*text == '.' && digits < 0) {
			digits = 0;
			continue;
		}
		if (*text < '0' || *text > '9')
			break;
		if (digits < 3)
			milli = milli * 10 + (uint64_t)(*text - '0');
		digits += digits >= 0 && digits < 3;
	}
	for (digits = digits < 0 ? 0 : digits; digits < 3 && milli < UINT32_MAX; digits++)
		milli *= 10;
	return *text == '\0' && milli < UINT32_MAX ? (uint32_t)milli : 0;
}

/* P, or P,E. */
static int read_memory(const char *text, struct sal_hello *hello, struct sal_err *err)
{
	const char *comma = strchr(text, ',');
	char first[64];
	int rc;

	(void)snprintf(first, sizeof(first), "%.*s",
		       comma ? (int)(comma - text) : (int)strlen(text), text);
	rc = sal_bytes_parse(first, &hello->persist_bytes, err);
	if (rc >= 0 && comma)
		rc = sal_bytes_parse(comma + 1, &hello->ephem_bytes, err);
	return rc;
}

static int read_kind(const char *text, struct sal_hello *hello, struct sal_err *err)
{
	hello->kind = strcmp(text, "inference") == 0 ? SAL_HELLO_INFERENCE : SAL_HELLO_TRAINING;
	if (hello->kind == SAL_HELLO_INFERENCE || strcmp(text, "training") == 0)
		return SAL_OK;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "SALUS_KIND is \"%s\", expected training or inference", text);
}

/* The notebook whose kernel this process is, as Jupyter says; NULL: none. */
static const char *find_notebook(void)
{
	const char *path = getenv("JPY_SESSION_NAME");
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;

	return name && *name ? name : NULL;
}

/* Kernels of one Jupyter share SALUS_JOB_NAME: the notebook tells them apart. */
static void fill_name(struct sal_hello *hello)
{
	const char *name = getenv("SALUS_JOB_NAME");
	const char *notebook = find_notebook();

	if (!name || !*name)
		name = notebook ? "jupyter" : program_invocation_short_name;
	(void)snprintf(hello->name, sizeof(hello->name), "%s%s%s", name, notebook ? "/" : "",
		       notebook ? notebook : "");
}

int adp_hello_fill(struct sal_hello *hello, const PJRT_NamedValue *options, size_t option_count,
		   struct sal_err *err)
{
	const char *memory = getenv("SALUS_MEMORY");
	const char *weight = getenv("SALUS_WEIGHT");
	const char *priority = getenv("SALUS_PRIORITY");
	const char *total = getenv("SALUS_TIME");
	const char *kind = getenv("SALUS_KIND");
	const char *deadline = getenv("SALUS_DEADLINE");
	int rc = SAL_OK;

	*hello = (struct sal_hello){
		.magic = SAL_WIRE_MAGIC,
		.major = SAL_WIRE_MAJOR,
		.minor = SAL_WIRE_MINOR,
		.size = sizeof(*hello),
		.priority = 20,
		.weight_milli = 1000,
		.kind = SAL_HELLO_UNDECLARED,
	};
	fill_name(hello);
	if (weight && *weight) {
		hello->weight_milli = read_weight(weight);
		if (hello->weight_milli == 0)
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "SALUS_WEIGHT is \"%s\"",
					   weight);
	}
	if (priority && *priority) {
		char *end;

		hello->priority = (uint32_t)strtoul(priority, &end, 10);
		if (*end || *priority < '0' || *priority > '9')
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "SALUS_PRIORITY is \"%s\"",
					   priority);
	}
	if (total && *total)
		rc = sal_duration_parse(total, &hello->total_ns, err);
	if (rc >= 0 && deadline && *deadline)
		rc = sal_duration_parse(deadline, &hello->deadline_ns, err);
	if (rc >= 0 && memory && *memory)
		rc = read_memory(memory, hello, err);
	if (rc >= 0 && kind && *kind)
		rc = read_kind(kind, hello, err);
	if (rc >= 0)
		rc = adp_devices_read(hello, options, option_count, err);
	return rc;
}

/* Only an empty file of this user is written to: SALUS_RUN may be stale. */
void adp_hello_note(void)
{
	const char *path = getenv("SALUS_RUN");
	struct stat st;
	int fd;

	if (!path || *path != '/')
		return;
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size == 0)
		(void)!write(fd, "1", 1);
	(void)close(fd);
}
