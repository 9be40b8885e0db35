/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing of devices and streams; the table of operations. */
#include "device/pjrt/vendor.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "device/pjrt/ffi/linalg.h"
#include "device/pjrt/ffi/python.h"
#include "device/pjrt/saved.h"
#include "heap/heap.h"

static void pjrt_close(struct sal_device *d);

static void stream_destroy(struct sal_stream *s)
{
	if (!s)
		return;
	if (s->client) {
		VENDOR_ARGS(s->device, PJRT_Client_Destroy_Args, destroy, .client = s->client);

		sal_vendor_drop(s->device, s->device->api->PJRT_Client_Destroy(&destroy.args));
	}
	sal_crew_fini(&s->crew);
	sal_vendor_bag_empty(&s->bag);
	free(s->others);
	free(s);
}

/* Options */

/*
 * By default each CUDA client takes three quarters of the memory for itself when it starts. With
 * these options the clients of all lanes share one pool, which grows as it is used.
 */
static const char *const cuda_options[] = { "allocator=cuda_async", "preallocate=false" };
#define CUDA_OPTIONS SAL_COUNT(cuda_options)

/* The plugin knows its platform before it has a client: only CUDA's has this attribute. */
static bool is_cuda(struct sal_device *d)
{
	static const char name[] = "cuda_version";
	struct vendor_bag bag = { 0 };
	struct sal_values values = { 0 };
	bool is_found = false;

	VENDOR_ARGS(d, PJRT_Plugin_Attributes_Args, get, .extension_start = NULL);

	if (!VENDOR_HAS(d, PJRT_Plugin_Attributes) ||
	    sal_vendor_check(d, d->api->PJRT_Plugin_Attributes(&get.args), NULL) < 0)
		return false;
	(void)sal_vendor_values(&bag, get.args.attributes, get.args.num_attributes, &values, NULL);
	for (size_t i = 0; i < values.count; i++)
		is_found |= values.at[i].name.size == sizeof(name) - 1 &&
			    memcmp(values.at[i].name.at, name, sizeof(name) - 1) == 0;
	sal_vendor_bag_empty(&bag);
	return is_found;
}

static bool has_option(const struct sal_device *d, struct sal_text name)
{
	for (size_t i = 0; i < d->option_count; i++) {
		struct sal_text known = d->options[i].value.name;

		if (known.size == name.size && memcmp(known.at, name.at, name.size) == 0)
			return true;
	}
	return false;
}

static int add_option(struct sal_device *d, const char *text, bool is_default, struct sal_err *err)
{
	struct sal_plugin_option *o = &d->options[d->option_count];
	int rc = sal_plugin_option_parse(text, o, err);

	if (rc < 0)
		return rc;
	if (!has_option(d, o->value.name))
		d->option_count++;
	else if (!is_default)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "the option %s is given twice",
				   o->text);
	return SAL_OK;
}

static int read_options(struct sal_device *d, const char *const *texts, struct sal_err *err)
{
	int rc = SAL_OK;

	d->options = calloc(SAL_PLUGIN_OPTIONS_MAX + CUDA_OPTIONS, sizeof(*d->options));
	if (!d->options)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a device");
	for (; texts && *texts && rc >= 0; texts++)
		rc = d->option_count < SAL_PLUGIN_OPTIONS_MAX
			     ? add_option(d, *texts, false, err)
			     : sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "a plugin gets at most %d options",
					   SAL_PLUGIN_OPTIONS_MAX);
	if (rc < 0 || !is_cuda(d))
		return rc;
	for (size_t i = 0; i < CUDA_OPTIONS && rc >= 0; i++)
		rc = add_option(d, cuda_options[i], true, err);
	return rc;
}

/* Clients */

static PJRT_NamedValue named_value(const struct sal_value *from)
{
	PJRT_NamedValue to = {
		.struct_size = PJRT_NamedValue_STRUCT_SIZE,
		.name = from->name.at,
		.name_size = from->name.size,
		.type = (PJRT_NamedValue_Type)from->kind,
		.value_size = 1,
	};

	if (from->kind == SAL_VALUE_TEXT) {
		to.string_value = from->text.at;
		to.value_size = from->text.size;
	} else if (from->kind == SAL_VALUE_INTS) {
		to.int64_array_value = from->numbers;
		to.value_size = from->number_count;
	} else if (from->kind == SAL_VALUE_FLOAT) {
		to.float_value = from->real;
	} else if (from->kind == SAL_VALUE_BOOL) {
		to.bool_value = from->number != 0;
	} else {
		to.int64_value = from->number;
	}
	return to;
}

/*
 * XLA's CPU client has four devices by default. Other vendors refuse the option that sets the
 * number, before they start anything. Only a client can tell its platform, so we try the option
 * first.
 */
static int create_client(struct sal_device *d, uint32_t chips, PJRT_Client **out_client,
			 struct sal_err *err)
{
	const struct sal_value wanted = { .name = { "cpu_device_count", 16 },
					  .kind = SAL_VALUE_INT,
					  .number = chips };
	PJRT_NamedValue options[SAL_PLUGIN_OPTIONS_MAX + CUDA_OPTIONS + 1];
	size_t count = d->option_count;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_Create_Args, create, .create_options = options);

	*out_client = NULL;
	for (size_t i = 0; i < count; i++)
		options[i] = named_value(&d->options[i].value);
	if (has_option(d, wanted.name))
		d->counts_devices = false;
	options[count] = named_value(&wanted);
	create.args.num_options = count + d->counts_devices;
	rc = sal_vendor_check(d, d->api->PJRT_Client_Create(&create.args), err);
	if (rc < 0 && d->counts_devices && !d->first) {
		d->counts_devices = false;
		create.args.num_options = count;
		rc = sal_vendor_check(d, d->api->PJRT_Client_Create(&create.args), err);
	}
	if (rc < 0)
		return rc;
	*out_client = create.args.client;
	return SAL_OK;
}

struct creation {
	struct sal_stream *stream;
	struct sal_err *err;
	int rc;
};

static void create(void *ctx)
{
	struct creation *c = ctx;

	c->rc = create_client(c->stream->device, c->stream->chip_count, &c->stream->client, c->err);
}

static void set_chip(struct sal_stream *s, PJRT_Device *chip)
{
	struct sal_device *d = s->device;

	s->chip = chip;
	if (VENDOR_HAS(d, PJRT_Device_DefaultMemory)) {
		VENDOR_ARGS(d, PJRT_Device_DefaultMemory_Args, get, .device = chip);

		if (sal_vendor_check(d, d->api->PJRT_Device_DefaultMemory(&get.args), NULL) ==
		    SAL_OK)
			s->memory = get.args.memory;
	}
}

static int find_chips(struct sal_stream *s, struct sal_err *err)
{
	struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_AddressableDevices_Args, list, .client = s->client);

	rc = sal_vendor_check(d, d->api->PJRT_Client_AddressableDevices(&list.args), err);
	if (rc < 0)
		return rc;
	if (list.args.num_addressable_devices == 0)
		return sal_err_set(err, SAL_NOT_FOUND, "the plugin has no device for this process");
	if (list.args.num_addressable_devices < s->chip_count)
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "the plugin made %zu devices instead of %u",
				   list.args.num_addressable_devices, (unsigned)s->chip_count);
	set_chip(s, list.args.addressable_devices[0]);
	s->others = calloc(s->chip_count, sizeof(*s->others));
	if (!s->others)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a stream");
	for (uint32_t i = 1; i < s->chip_count; i++) {
		struct sal_stream *chip = &s->others[i - 1];

		chip->device = d;
		chip->client = s->client;
		chip->whole = s;
		set_chip(chip, list.args.addressable_devices[i]);
	}
	return SAL_OK;
}

struct sal_stream *sal_pjrt_chip(struct sal_stream *s, uint32_t chip)
{
	return chip == 0 ? s : &s->others[chip - 1];
}

/* The number of a device of the client; UINT32_MAX: the stream does not have it. */
static uint32_t chip_number(const struct sal_stream *s, const PJRT_Device *device)
{
	if (s->chip == device)
		return 0;
	for (uint32_t i = 1; i < s->chip_count; i++)
		if (s->others[i - 1].chip == device)
			return i;
	return UINT32_MAX;
}

int sal_vendor_chips(const struct sal_stream *s, PJRT_LoadedExecutable *loaded,
		     struct vendor_bag *bag, uint32_t **out_chips, size_t *out_count,
		     struct sal_err *err)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_LoadedExecutable_AddressableDevices_Args, list, .executable = loaded);

	*out_chips = NULL;
	*out_count = 0;
	if (s->chip_count == 1)
		return SAL_OK;
	rc = sal_vendor_check(d, d->api->PJRT_LoadedExecutable_AddressableDevices(&list.args), err);
	if (rc < 0)
		return rc;
	*out_chips = sal_vendor_bag_take(bag, list.args.num_addressable_devices, sizeof(uint32_t));
	if (!*out_chips)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
	*out_count = list.args.num_addressable_devices;
	for (size_t i = 0; i < *out_count; i++) {
		(*out_chips)[i] = chip_number(s, list.args.addressable_devices[i]);
		if ((*out_chips)[i] == UINT32_MAX)
			return sal_err_set(err, SAL_INTERNAL,
					   "the program runs on a device that its stream lacks");
	}
	return SAL_OK;
}

static uint32_t next_mark(struct sal_device *d)
{
	uint32_t mark;

	pthread_mutex_lock(&d->lock);
	mark = ++d->marks;
	pthread_mutex_unlock(&d->lock);
	return mark;
}

static int stream_create(struct sal_device *d, uint32_t tier, uint32_t chips,
			 struct sal_stream **out_stream, struct sal_err *err)
{
	struct creation creation = { .err = err };
	struct sal_stream *s;
	int rc;

	*out_stream = NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a stream");
	s->device = d;
	s->whole = s;
	s->chip_count = chips;
	if (sal_crew_init(&s->crew, next_mark(d), tier) != 0) {
		free(s);
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no thread for a stream");
	}
	creation.stream = s;
	sal_crew_create(&s->crew, create, &creation);
	rc = creation.rc;
	if (rc < 0)
		goto fail;
	rc = find_chips(s, err);
	if (rc < 0)
		goto fail;
	*out_stream = s;
	return SAL_OK;
fail:
	stream_destroy(s);
	return rc;
}

/* Whoever reads an error may not know which plugin was meant. */
static int name_plugin(const char *path, int rc, struct sal_err *err)
{
	if (!err || !path || strstr(err->text, path))
		return rc;
	return sal_err_set(err, (enum sal_code)err->code, "%s: %s", path, err->text);
}

static int pjrt_open(const struct sal_device_config *cfg, struct sal_device **out_device,
		     struct sal_err *err)
{
	struct sal_device *d;
	int rc;

	*out_device = NULL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a device");
	pthread_mutex_init(&d->lock, NULL);
	sal_vendor_shelf_init(&d->shelf);
	d->counts_devices = true;
	rc = sal_vendor_load(d, cfg->plugin_path, err);
	if (rc < 0)
		goto fail;
	rc = read_options(d, cfg->plugin_options, err);
	if (rc < 0)
		goto fail;
	sal_python_register(d);
	rc = stream_create(d, 0, 1, &d->first, err);
	if (rc < 0)
		goto fail;
	d->spare = true;
	rc = sal_vendor_describe(d->first, &d->bag, &d->facts, err);
	if (rc < 0)
		goto fail;
	d->can_raise = d->facts.is_host && sal_crew_can_raise();
	d->shelf.keeps = !d->facts.is_host || !sal_heap_is_on();
	rc = sal_vendor_register(d, err);
	if (rc < 0)
		goto fail;
	*out_device = d;
	return SAL_OK;
fail:
	pjrt_close(d);
	return name_plugin(cfg->plugin_path, rc, err);
}

static void pjrt_close(struct sal_device *d)
{
	if (!d)
		return;
	stream_destroy(d->first);
	sal_vendor_bag_empty(&d->bag);
	sal_vendor_shelf_fini(&d->shelf);
	free(d->options);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/*
 * Tested with XLA:CPU (tests/cts/test_devices.c). We do not rely on the callback threads of other
 * vendors.
 */
static bool can_execute_in_done(const struct sal_device *d)
{
	return d->facts.is_host;
}

static bool has_tiers(const struct sal_device *d)
{
	return d->facts.is_host;
}

static const struct sal_device_facts *pjrt_facts(struct sal_device *d)
{
	return &d->facts;
}

/* The first client has tier 0. False: it is in use. */
static bool take_spare(struct sal_device *d)
{
	bool spare;

	pthread_mutex_lock(&d->lock);
	spare = d->spare;
	d->spare = false;
	pthread_mutex_unlock(&d->lock);
	return spare;
}

static int pjrt_open_stream(struct sal_device *d, uint32_t tier, struct sal_stream **out_stream,
			    struct sal_err *err)
{
	if (!has_tiers(d))
		tier = 0;
	if (tier > 0 || !take_spare(d))
		return stream_create(d, tier, 1, out_stream, err);
	*out_stream = d->first;
	return SAL_OK;
}

static int pjrt_open_wide(struct sal_device *d, uint32_t tier, uint32_t chips,
			  struct sal_stream **out_stream, struct sal_err *err)
{
	*out_stream = NULL;
	if (!d->counts_devices || !d->facts.is_host)
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "this plugin cannot make several devices of one: only XLA's CPU "
				   "plugin can");
	return stream_create(d, tier, chips, out_stream, err);
}

static int pjrt_set_tier(struct sal_stream *s, uint32_t tier)
{
	if (!s->device->can_raise)
		return -SAL_UNIMPLEMENTED;
	sal_crew_set_tier(&s->crew, tier);
	return SAL_OK;
}

static uint64_t pjrt_busy_ns(struct sal_stream *s)
{
	return s->device->facts.is_host ? sal_crew_busy_ns(&s->crew) : 0;
}

static void pjrt_close_stream(struct sal_stream *s)
{
	struct sal_device *d;

	if (!s)
		return;
	d = s->device;
	sal_vendor_await_loans(s);
	for (uint32_t i = 1; i < s->chip_count; i++)
		sal_vendor_await_loans(&s->others[i - 1]);
	if (s != d->first) {
		stream_destroy(s);
		return;
	}
	pthread_mutex_lock(&d->lock);
	d->spare = true;
	pthread_mutex_unlock(&d->lock);
}

const struct sal_device_ops sal_device_pjrt = {
	.name = "pjrt",
	.open = pjrt_open,
	.close = pjrt_close,
	.facts = pjrt_facts,
	.can_execute_in_done = can_execute_in_done,
	.has_tiers = has_tiers,
	.open_stream = pjrt_open_stream,
	.open_wide = pjrt_open_wide,
	.set_tier = pjrt_set_tier,
	.describe = sal_pjrt_describe,
	.chip = sal_pjrt_chip,
	.copy_to = sal_pjrt_copy_to,
	.close_stream = pjrt_close_stream,
	.busy_ns = pjrt_busy_ns,
	.memory = sal_pjrt_memory,
	.load = sal_pjrt_load,
	.unload = sal_pjrt_unload,
	.upload = sal_pjrt_upload,
	.download = sal_pjrt_download,
	.copy = sal_pjrt_copy,
	.reach = sal_vendor_reach,
	.when_ready = sal_pjrt_when_ready,
	.free_buffer = sal_pjrt_free_buffer,
	.save = sal_pjrt_save,
	.leave = sal_pjrt_leave,
	.await_saved = sal_pjrt_await_saved,
	.restore = sal_pjrt_restore,
	.empty = sal_pjrt_empty,
	.refill = sal_pjrt_refill,
	.saved_bytes = sal_pjrt_saved_bytes,
	.free_saved = sal_pjrt_free_saved,
	.adopt = sal_pjrt_adopt,
	.execute = sal_pjrt_execute,
};
