/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, and the memory limit. */
#include "device/fake/impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"

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
	{ .id = 1,
	  .kind_id = 2,
	  .kind = TEXT("pinned_host"),
	  .debug_string = TEXT("FAKE_HOST_0"),
	  .to_string = TEXT("FAKE_HOST_0") },
};

static const struct sal_device_facts facts = {
	.platform_name = TEXT("fake"),
	.platform_version = TEXT("fake 1"),
	.plugin_attributes = { attributes, SAL_COUNT(attributes) },
	.kind = TEXT("fake"),
	.debug_string = TEXT("FAKE_0"),
	.to_string = TEXT("FakeDevice(id=0)"),
	.memories = memories,
	.memory_count = SAL_COUNT(memories),
};

/* Memory */

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

/* Opening and closing */

void sal_fake_close(struct sal_device *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->closing = true;
	pthread_cond_broadcast(&d->change);
	while (d->calls_inside > 0)
		pthread_cond_wait(&d->change, &d->lock);
	pthread_mutex_unlock(&d->lock);
	SAL_ASSERT(d->used == 0);
	pthread_cond_destroy(&d->change);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

int sal_fake_open(const struct sal_device_config *cfg, struct sal_device **out_device,
		  struct sal_err *err)
{
	struct sal_device *d;
	int rc;

	*out_device = NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a device");
	pthread_mutex_init(&d->lock, NULL);
	sal_fake_cond_init(&d->change);
	LIST_INIT(&d->streams);
	d->capacity = cfg->memory_bytes;
	d->run_ns = cfg->fake_ns;
	rc = sal_fake_read_faults(d, cfg->plugin_path, err);
	if (rc < 0) {
		sal_fake_close(d);
		return rc;
	}
	*out_device = d;
	return SAL_OK;
}

int sal_fake_describe(struct sal_stream *s, const struct sal_device_facts **out_facts,
		      struct sal_err *err)
{
	*out_facts = NULL;
	if (!s->chip_facts)
		s->chip_facts = calloc(s->chip_count, sizeof(*s->chip_facts));
	if (!s->chip_facts)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for facts");
	s->facts = facts;
	for (uint32_t i = 0; i + 1 < s->chip_count; i++)
		s->chip_facts[i] = (struct sal_chip_facts){
			.device_id = (int32_t)i + 1,
			.local_hardware_id = (int32_t)i + 1,
			.kind = facts.kind,
			.debug_string = facts.debug_string,
			.to_string = facts.to_string,
			.memories = memories,
			.memory_count = SAL_COUNT(memories),
		};
	s->facts.others = s->chip_facts;
	s->facts.other_count = s->chip_count - 1;
	*out_facts = &s->facts;
	return SAL_OK;
}

const struct sal_device_facts *sal_fake_facts(struct sal_device *d)
{
	(void)d;
	return &facts;
}
