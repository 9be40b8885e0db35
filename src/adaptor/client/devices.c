/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/devices.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/messages.h"

#define OPTION "cpu_device_count"
#define FLAG "--xla_force_host_platform_device_count="

/* A whole number from 1 to the most; the text ends at a blank or NUL. */
static int read_count(const char *what, const char *text, uint32_t *out_count, struct sal_err *err)
{
	char *end;
	unsigned long count = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || (*end && !strchr(" \t\n", *end)) || count == 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "%s is \"%.20s\", expected a number of devices", what, text);
	if (count > SAL_DEVICES_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "%s asks for %lu devices, a job may have at most %d", what,
				   count, SAL_DEVICES_MAX);
	*out_count = (uint32_t)count;
	return SAL_OK;
}

static bool is_option(const PJRT_NamedValue *v, const char *name)
{
	return v->name_size == strlen(name) && memcmp(v->name, name, v->name_size) == 0;
}

/* -1 is JAX's word for "not set". */
static int read_option(const PJRT_NamedValue *options, size_t count, uint32_t *out_count,
		       struct sal_err *err)
{
	size_t i;

	for (i = 0; i < count; i++) {
		int64_t value = options[i].int64_value;

		if (!is_option(&options[i], OPTION) || value == -1)
			continue;
		if (options[i].type != PJRT_NamedValue_kInt64 || value < 1)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   OPTION " is no number of devices");
		if (value > SAL_DEVICES_MAX)
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "%lld devices asked for, a job may have at most %d",
					   (long long)value, SAL_DEVICES_MAX);
		*out_count = (uint32_t)value;
	}
	return SAL_OK;
}

/* XLA takes the last of several. */
static int read_flags(const char *flags, uint32_t *out_count, struct sal_err *err)
{
	const char *at = flags;
	int rc = SAL_OK;

	while (rc >= 0 && (at = strstr(at, FLAG))) {
		at += strlen(FLAG);
		rc = read_count("XLA_FLAGS " FLAG, at, out_count, err);
	}
	return rc;
}

static int read_host_devices(struct sal_hello *hello, const PJRT_NamedValue *options, size_t count,
			     struct sal_err *err)
{
	const char *module = getenv("SALUS_HOST_DEVICES");
	const char *jax = getenv("JAX_NUM_CPU_DEVICES");
	const char *flags = getenv("XLA_FLAGS");
	int rc = read_option(options, count, &hello->host_devices, err);

	if (rc < 0 || hello->host_devices > 0)
		return rc;
	if (module && *module)
		return read_count("jax_num_cpu_devices", module, &hello->host_devices, err);
	if (jax && *jax && strcmp(jax, "-1") != 0)
		return read_count("JAX_NUM_CPU_DEVICES", jax, &hello->host_devices, err);
	return flags ? read_flags(flags, &hello->host_devices, err) : SAL_OK;
}

int adp_devices_read(struct sal_hello *hello, const PJRT_NamedValue *options, size_t option_count,
		     struct sal_err *err)
{
	const char *ours = getenv("SALUS_DEVICES");
	int rc = SAL_OK;

	hello->devices = hello->host_devices = 0;
	if (ours && *ours)
		rc = read_count("SALUS_DEVICES", ours, &hello->devices, err);
	if (rc >= 0)
		rc = read_host_devices(hello, options, option_count, err);
	if (rc >= 0 && hello->devices && hello->host_devices &&
	    hello->devices != hello->host_devices)
		return sal_err_set(
			err, SAL_INVALID_ARGUMENT,
			"the job asks for %u devices by --devices or SALUS_DEVICES, and for "
			"%u by jax_num_cpu_devices or XLA_FLAGS: one of them must go",
			(unsigned)hello->devices, (unsigned)hello->host_devices);
	return rc;
}
