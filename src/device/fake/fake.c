/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, the limit of memory, the faults, and the table of operations. */
#include "device/fake/impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(literal)                        \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

static const int64_t stablehlo_version[] = { 1, 0, 0 };

static const struct sal_value attributes[] = {
	{ .name = TEXT("xla_version"), .kind = SAL_VALUE_INT, .number = 2 },
	{ .name = TEXT("stablehlo_current_version"),
	  .kind = SAL_VALUE_INTS,
	  .numbers = stablehlo_version,
	  .number_count = 3 },
};

static const struct sal_memory_facts memories[] = {
	{ .id = 0,
	  .kind_id = 1,
	  .kind = TEXT("device"),
	  .debug_string = TEXT("FAKE_DEVICE_0"),
	  .to_string = TEXT("FAKE_DEVICE_0") },
};

static const struct sal_device_facts facts = {
	.platform_name = TEXT("fake"),
	.platform_version = TEXT("fake 1"),
	.plugin_attributes = { attributes, sizeof(attributes) / sizeof(attributes[0]) },
	.kind = TEXT("fake"),
	.debug_string = TEXT("FAKE_0"),
	.to_string = TEXT("FakeDevice(id=0)"),
	.memories = memories,
	.memory_count = 1,
};

static const char *const call_names[FAKE_CALL_COUNT] = {
	[FAKE_CALL_UPLOAD] = "upload",
	[FAKE_CALL_DOWNLOAD] = "download",
	[FAKE_CALL_LOAD] = "load",
	[FAKE_CALL_EXECUTE] = "execute",
};

/* --- faults --- */

static int add_fault(struct sal_device *d, const char *text, struct sal_err *err)
{
	struct fake_fault fault = { 0 };
	char name[16];
	int end = 0;

	if (sscanf(text, "%15[a-z]@%" SCNu64 "=%d%n", name, &fault.at, &fault.code, &end) != 3 ||
	    text[end] || fault.at == 0 || fault.code <= SAL_OK || fault.code > SAL_UNAUTHENTICATED)
		goto bad;
	while (fault.call < FAKE_CALL_COUNT && strcmp(name, call_names[fault.call]) != 0)
		fault.call++;
	if (fault.call == FAKE_CALL_COUNT || d->fault_count == FAKE_MAX_FAULTS)
		goto bad;
	d->faults[d->fault_count++] = fault;
	return SAL_OK;
bad:
	return sal_err_set(err, SAL_INVALID_ARGUMENT, "\"%s\" is no fault like upload@3=14", text);
}

static int read_faults(struct sal_device *d, const char *path, struct sal_err *err)
{
	char *copy;
	char *rest;
	int rc = SAL_OK;

	if (!path || strcmp(path, "fake") == 0)
		return SAL_OK;
	if (strncmp(path, "fake:", 5) != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "\"%s\" is neither \"fake\" nor \"fake:\" and faults", path);
	copy = strdup(path + 5);
	if (!copy)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for faults");
	rest = copy;
	while (rest && rc >= 0)
		rc = add_fault(d, strsep(&rest, ","), err);
	free(copy);
	return rc;
}

int sal_fake_count_call(struct sal_device *d, enum fake_call call, struct sal_err *err)
{
	int code = SAL_OK;
	uint64_t count;

	pthread_mutex_lock(&d->lock);
	count = ++d->calls[call];
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < d->fault_count; i++) {
		if (d->faults[i].call == call && d->faults[i].at == count)
			code = d->faults[i].code;
	}
	if (code == SAL_OK)
		return SAL_OK;
	return sal_err_set(err, (enum sal_code)code, "%s %" PRIu64 " was told to fail",
			   call_names[call], count);
}

/* --- memory --- */

int sal_fake_reserve(struct sal_device *d, uint64_t bytes, struct sal_err *err)
{
	uint64_t used;
	bool fits;

	pthread_mutex_lock(&d->lock);
	used = d->used;
	fits = d->capacity == 0 || (used <= d->capacity && bytes <= d->capacity - used);
	if (fits)
		d->used += bytes;
	pthread_mutex_unlock(&d->lock);
	if (fits)
		return SAL_OK;
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
			   "%" PRIu64 " bytes do not fit: %" PRIu64 " of %" PRIu64 " are in use",
			   bytes, used, d->capacity);
}

void sal_fake_release(struct sal_device *d, uint64_t bytes)
{
	pthread_mutex_lock(&d->lock);
	SAL_ASSERT(d->used >= bytes);
	d->used -= bytes;
	pthread_mutex_unlock(&d->lock);
}

/* --- opening and closing --- */

static void fake_close(struct sal_device *d)
{
	if (!d)
		return;
	SAL_ASSERT(d->used == 0);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

static int fake_open(const struct sal_device_config *cfg, struct sal_device **out_device,
		     struct sal_err *err)
{
	struct sal_device *d;
	int rc;

	*out_device = NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a device");
	pthread_mutex_init(&d->lock, NULL);
	d->capacity = cfg->memory_bytes;
	d->run_ns = cfg->fake_ns;
	rc = read_faults(d, cfg->plugin_path, err);
	if (rc < 0) {
		fake_close(d);
		return rc;
	}
	*out_device = d;
	return SAL_OK;
}

static const struct sal_device_facts *fake_facts(struct sal_device *d)
{
	(void)d;
	return &facts;
}

const struct sal_device_ops sal_device_fake = {
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.facts = fake_facts,
	.open_stream = sal_fake_stream_open,
	.close_stream = sal_fake_stream_close,
	.compile = sal_fake_compile,
	.compiled_facts = sal_fake_compiled_facts,
	.compiled_image = sal_fake_compiled_image,
	.compiled_optimized = sal_fake_compiled_optimized,
	.free_compiled = sal_fake_free_compiled,
	.load = sal_fake_load,
	.unload = sal_fake_unload,
	.upload = sal_fake_upload,
	.download = sal_fake_download,
	.copy = sal_fake_copy,
	.when_ready = sal_fake_when_ready,
	.free_buffer = sal_fake_free_buffer,
	.save = sal_fake_save,
	.restore = sal_fake_restore,
	.empty = sal_fake_empty,
	.refill = sal_fake_refill,
	.saved_bytes = sal_fake_saved_bytes,
	.free_saved = sal_fake_free_saved,
	.execute = sal_fake_execute,
};
