/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the plugin, its devices and their memories. */
#include "device/pjrt/vendor.h"

#include <string.h>

/* What is described: facts of a stream's client, in a bag. */
struct subject {
	struct sal_stream *stream;
	const struct sal_device *device;
	struct vendor_bag *bag;
	struct sal_device_facts *facts;
};

static int no_memory(struct sal_err *err)
{
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for the facts of a device");
}

/* False for an unknown kind, from a newer plugin. */
static bool read_value(const PJRT_NamedValue *from, struct sal_value *to)
{
	*to = (struct sal_value){
		.name = { from->name, from->name_size },
		.kind = (enum sal_value_kind)from->type,
	};
	switch (from->type) {
	case PJRT_NamedValue_kString:
		to->text = (struct sal_text){ from->string_value, from->value_size };
		return true;
	case PJRT_NamedValue_kInt64:
		to->number = from->int64_value;
		return true;
	case PJRT_NamedValue_kInt64List:
		to->numbers = from->int64_array_value;
		to->number_count = from->value_size;
		return true;
	case PJRT_NamedValue_kFloat:
		to->real = from->float_value;
		return true;
	case PJRT_NamedValue_kBool:
		to->number = from->bool_value;
		return true;
	default:
		return false;
	}
}

/*
 * A newer plugin may have longer values than our header, so the plugin's own size leads to the next
 * value. Some plugins leave the size out.
 */
static const PJRT_NamedValue *value_at(const PJRT_NamedValue *values, size_t index)
{
	size_t size = values->struct_size;

	if (size < sizeof(*values))
		size = sizeof(*values);
	size = (size + _Alignof(PJRT_NamedValue) - 1) / _Alignof(PJRT_NamedValue) *
	       _Alignof(PJRT_NamedValue);
	return (const PJRT_NamedValue *)(const void *)((const char *)values + index * size);
}

int sal_vendor_values(struct vendor_bag *bag, const PJRT_NamedValue *values, size_t count,
		      struct sal_values *out_values, struct sal_err *err)
{
	struct sal_value *at = sal_vendor_bag_take(bag, count, sizeof(*at));
	size_t known = 0;

	*out_values = (struct sal_values){ 0 };
	if (!at)
		return no_memory(err);
	for (size_t i = 0; i < count; i++) {
		if (read_value(value_at(values, i), &at[known]))
			known++;
	}
	*out_values = (struct sal_values){ .at = at, .count = known };
	return SAL_OK;
}

static int describe_plugin(const struct subject *x, struct sal_err *err)
{
	const struct sal_device *d = x->device;
	struct sal_device_facts *f = x->facts;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_PlatformName_Args, name, .client = x->stream->client);
	VENDOR_ARGS(d, PJRT_Client_PlatformVersion_Args, version, .client = x->stream->client);
	VENDOR_ARGS(d, PJRT_Plugin_Attributes_Args, attributes, .extension_start = NULL);

	rc = sal_vendor_check(d, d->api->PJRT_Client_PlatformName(&name.args), err);
	if (rc < 0)
		return rc;
	f->api_major = (uint32_t)d->api->pjrt_api_version.major_version;
	f->api_minor = (uint32_t)d->api->pjrt_api_version.minor_version;
	f->platform_name.at = name.args.platform_name;
	f->platform_name.size = name.args.platform_name_size;
	rc = sal_vendor_check(d, d->api->PJRT_Client_PlatformVersion(&version.args), err);
	if (rc < 0)
		return rc;
	f->platform_version.at = version.args.platform_version;
	f->platform_version.size = version.args.platform_version_size;

	if (!VENDOR_HAS(d, PJRT_Plugin_Attributes))
		return SAL_OK;
	rc = sal_vendor_check(d, d->api->PJRT_Plugin_Attributes(&attributes.args), err);
	if (rc < 0)
		return rc;
	return sal_vendor_values(x->bag, attributes.args.attributes, attributes.args.num_attributes,
				 &f->plugin_attributes, err);
}

/* Not all plugins have a topology. Its facts are empty then. */
static int describe_topology(const struct subject *x, struct sal_err *err)
{
	const struct sal_device *d = x->device;
	struct sal_device_facts *f = x->facts;
	PJRT_TopologyDescription *topology;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_TopologyDescription_Args, get, .client = x->stream->client);

	if (!VENDOR_HAS(d, PJRT_Client_TopologyDescription) ||
	    sal_vendor_check(d, d->api->PJRT_Client_TopologyDescription(&get.args), NULL) < 0)
		return SAL_OK;
	topology = get.args.topology;
	if (VENDOR_HAS(d, PJRT_TopologyDescription_Attributes)) {
		VENDOR_ARGS(d, PJRT_TopologyDescription_Attributes_Args, list,
			    .topology = topology);

		if (sal_vendor_check(d, d->api->PJRT_TopologyDescription_Attributes(&list.args),
				     NULL) == SAL_OK) {
			rc = sal_vendor_values(x->bag, list.args.attributes,
					       list.args.num_attributes, &f->topology_attributes,
					       err);
			if (rc < 0)
				return rc;
		}
	}
	if (VENDOR_HAS(d, PJRT_TopologyDescription_Serialize)) {
		VENDOR_ARGS(d, PJRT_TopologyDescription_Serialize_Args, ser, .topology = topology);

		if (sal_vendor_check(d, d->api->PJRT_TopologyDescription_Serialize(&ser.args),
				     NULL) < 0)
			return SAL_OK;
		f->topology = sal_vendor_bag_text(x->bag, ser.args.serialized_bytes,
						  ser.args.serialized_bytes_size);
		if (ser.args.serialized_topology_deleter)
			ser.args.serialized_topology_deleter(ser.args.serialized_topology);
		if (!f->topology.at)
			return no_memory(err);
	}
	return SAL_OK;
}

static int describe_texts(const struct sal_device *d, PJRT_DeviceDescription *about,
			  struct sal_chip_facts *f, struct sal_err *err)
{
	int rc;

	VENDOR_ARGS(d, PJRT_DeviceDescription_Kind_Args, kind, .device_description = about);
	VENDOR_ARGS(d, PJRT_DeviceDescription_DebugString_Args, debug, .device_description = about);
	VENDOR_ARGS(d, PJRT_DeviceDescription_ToString_Args, text, .device_description = about);

	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_Kind(&kind.args), err);
	if (rc < 0)
		return rc;
	f->kind.at = kind.args.device_kind;
	f->kind.size = kind.args.device_kind_size;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_DebugString(&debug.args), err);
	if (rc < 0)
		return rc;
	f->debug_string.at = debug.args.debug_string;
	f->debug_string.size = debug.args.debug_string_size;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_ToString(&text.args), err);
	if (rc < 0)
		return rc;
	f->to_string.at = text.args.to_string;
	f->to_string.size = text.args.to_string_size;
	return SAL_OK;
}

static int describe_ids(const struct subject *x, PJRT_Device *chip, PJRT_DeviceDescription *about,
			struct sal_chip_facts *f, struct sal_err *err)
{
	const struct sal_device *d = x->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_LocalHardwareId_Args, local, .device = chip);
	VENDOR_ARGS(d, PJRT_DeviceDescription_Id_Args, id, .device_description = about);
	VENDOR_ARGS(d, PJRT_DeviceDescription_ProcessIndex_Args, process,
		    .device_description = about);

	rc = sal_vendor_check(d, d->api->PJRT_Device_LocalHardwareId(&local.args), err);
	if (rc < 0)
		return rc;
	f->local_hardware_id = local.args.local_hardware_id;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_Id(&id.args), err);
	if (rc < 0)
		return rc;
	f->device_id = id.args.id;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_ProcessIndex(&process.args), err);
	if (rc < 0)
		return rc;
	x->facts->process_index = process.args.process_index;
	return SAL_OK;
}

/* The kind's id is 0 for plugins that are older than these ids. */
static int describe_memory(const struct sal_device *d, PJRT_Memory *memory,
			   struct sal_memory_facts *out, struct sal_err *err)
{
	int rc;

	VENDOR_ARGS(d, PJRT_Memory_Id_Args, id, .memory = memory);
	VENDOR_ARGS(d, PJRT_Memory_Kind_Args, kind, .memory = memory);
	VENDOR_ARGS(d, PJRT_Memory_Kind_Id_Args, kind_id, .memory = memory);
	VENDOR_ARGS(d, PJRT_Memory_DebugString_Args, debug, .memory = memory);
	VENDOR_ARGS(d, PJRT_Memory_ToString_Args, text, .memory = memory);

	rc = sal_vendor_check(d, d->api->PJRT_Memory_Id(&id.args), err);
	if (rc < 0)
		return rc;
	out->id = id.args.id;
	rc = sal_vendor_check(d, d->api->PJRT_Memory_Kind(&kind.args), err);
	if (rc < 0)
		return rc;
	out->kind = (struct sal_text){ .at = kind.args.kind, .size = kind.args.kind_size };
	if (VENDOR_HAS(d, PJRT_Memory_Kind_Id)) {
		rc = sal_vendor_check(d, d->api->PJRT_Memory_Kind_Id(&kind_id.args), err);
		if (rc < 0)
			return rc;
		out->kind_id = kind_id.args.kind_id;
	}
	rc = sal_vendor_check(d, d->api->PJRT_Memory_DebugString(&debug.args), err);
	if (rc < 0)
		return rc;
	out->debug_string.at = debug.args.debug_string;
	out->debug_string.size = debug.args.debug_string_size;
	rc = sal_vendor_check(d, d->api->PJRT_Memory_ToString(&text.args), err);
	if (rc < 0)
		return rc;
	out->to_string.at = text.args.to_string;
	out->to_string.size = text.args.to_string_size;
	return SAL_OK;
}

static bool can_describe_memories(const struct sal_device *d)
{
	return VENDOR_HAS(d, PJRT_Device_AddressableMemories) && VENDOR_HAS(d, PJRT_Memory_Id) &&
	       VENDOR_HAS(d, PJRT_Memory_Kind) && VENDOR_HAS(d, PJRT_Memory_DebugString) &&
	       VENDOR_HAS(d, PJRT_Memory_ToString);
}

static int describe_memories(const struct subject *x, const struct sal_stream *chip,
			     struct sal_chip_facts *f, struct sal_err *err)
{
	const struct sal_device *d = x->device;
	struct sal_memory_facts *memories;
	size_t count;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_AddressableMemories_Args, list, .device = chip->chip);

	if (!can_describe_memories(d) ||
	    sal_vendor_check(d, d->api->PJRT_Device_AddressableMemories(&list.args), NULL) < 0)
		return SAL_OK;
	count = list.args.num_memories;
	memories = sal_vendor_bag_take(x->bag, count, sizeof(*memories));
	if (!memories)
		return no_memory(err);
	for (size_t i = 0; i < count; i++) {
		rc = describe_memory(d, list.args.memories[i], &memories[i], err);
		if (rc < 0)
			return rc;
		if (list.args.memories[i] == chip->memory)
			f->default_memory = i;
	}
	f->memories = memories;
	f->memory_count = count;
	return SAL_OK;
}

/* Asks a small buffer: the name of a platform does not say where its memory is. */
static bool is_host(const struct subject *x)
{
	const struct sal_device *d = x->device;
	static const struct sal_array array = { .type = PJRT_Buffer_Type_U8 };
	struct sal_text name = x->facts->platform_name;
	struct sal_buffer *b = NULL;
	bool is_reached;

	if (name.size != 3 || memcmp(name.at, "cpu", 3) != 0 ||
	    !VENDOR_HAS(d, PJRT_Buffer_IsOnCpu) ||
	    sal_pjrt_upload(x->stream, &array, "", SAL_UPLOAD_COPY, NULL, NULL, &b, NULL) < 0)
		return false;
	{
		VENDOR_ARGS(d, PJRT_Buffer_IsOnCpu_Args, where, .buffer = b->buffer);

		is_reached = sal_vendor_check(d, d->api->PJRT_Buffer_IsOnCpu(&where.args), NULL) >=
				     0 &&
			     where.args.is_on_cpu;
	}
	sal_pjrt_free_buffer(b);
	return is_reached;
}

static void describe_capacity(const struct subject *x)
{
	const struct sal_device *d = x->device;

	VENDOR_ARGS(d, PJRT_Device_MemoryStats_Args, get, .device = x->stream->chip);

	x->facts->is_host = is_host(x);
	if (VENDOR_HAS(d, PJRT_Device_MemoryStats) &&
	    sal_vendor_check(d, d->api->PJRT_Device_MemoryStats(&get.args), NULL) >= 0 &&
	    get.args.bytes_limit_is_set && get.args.bytes_limit > 0)
		x->facts->memory_bytes = (uint64_t)get.args.bytes_limit;
}

int sal_pjrt_memory(struct sal_stream *s, struct sal_stream_memory *out_memory)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_MemoryStats_Args, get, .device = s->chip);

	*out_memory = (struct sal_stream_memory){ 0 };
	if (!VENDOR_HAS(d, PJRT_Device_MemoryStats))
		return -SAL_UNIMPLEMENTED;
	rc = sal_vendor_check(d, d->api->PJRT_Device_MemoryStats(&get.args), NULL);
	if (rc < 0)
		return rc;
	out_memory->used_bytes = get.args.bytes_in_use > 0 ? (uint64_t)get.args.bytes_in_use : 0;
	if (get.args.peak_bytes_in_use_is_set && get.args.peak_bytes_in_use > 0)
		out_memory->peak_bytes = (uint64_t)get.args.peak_bytes_in_use;
	return SAL_OK;
}

static int describe_chip(const struct subject *x, const struct sal_stream *chip,
			 struct sal_chip_facts *f, struct sal_err *err)
{
	const struct sal_device *d = x->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_GetDescription_Args, get, .device = chip->chip);
	VENDOR_ARGS(d, PJRT_DeviceDescription_Attributes_Args, list, .extension_start = NULL);

	rc = sal_vendor_check(d, d->api->PJRT_Device_GetDescription(&get.args), err);
	if (rc < 0)
		return rc;
	rc = describe_ids(x, chip->chip, get.args.device_description, f, err);
	if (rc < 0)
		return rc;
	rc = describe_texts(d, get.args.device_description, f, err);
	if (rc < 0)
		return rc;
	list.args.device_description = get.args.device_description;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_Attributes(&list.args), err);
	if (rc < 0)
		return rc;
	rc = sal_vendor_values(x->bag, list.args.attributes, list.args.num_attributes,
			       &f->attributes, err);
	if (rc < 0)
		return rc;
	return describe_memories(x, chip, f, err);
}

static int describe_first(const struct subject *x, struct sal_err *err)
{
	struct sal_device_facts *f = x->facts;
	struct sal_chip_facts c = { 0 };
	int rc = describe_chip(x, x->stream, &c, err);

	f->device_id = c.device_id;
	f->local_hardware_id = c.local_hardware_id;
	f->kind = c.kind;
	f->debug_string = c.debug_string;
	f->to_string = c.to_string;
	f->device_attributes = c.attributes;
	f->memories = c.memories;
	f->memory_count = c.memory_count;
	f->default_memory = c.default_memory;
	return rc;
}

static int describe_others(const struct subject *x, struct sal_err *err)
{
	size_t count = x->stream->chip_count - 1;
	struct sal_chip_facts *others = sal_vendor_bag_take(x->bag, count, sizeof(*others));
	int rc = SAL_OK;

	if (!others)
		return no_memory(err);
	for (size_t i = 0; i < count && rc >= 0; i++)
		rc = describe_chip(x, &x->stream->others[i], &others[i], err);
	x->facts->others = others;
	x->facts->other_count = rc < 0 ? 0 : count;
	return rc;
}

int sal_vendor_describe(struct sal_stream *s, struct vendor_bag *bag,
			struct sal_device_facts *facts, struct sal_err *err)
{
	const struct subject x = { s, s->device, bag, facts };
	int rc;

	rc = describe_plugin(&x, err);
	if (rc >= 0)
		rc = describe_topology(&x, err);
	if (rc >= 0)
		rc = describe_first(&x, err);
	if (rc >= 0)
		rc = describe_others(&x, err);
	if (rc >= 0)
		describe_capacity(&x);
	return rc;
}

int sal_pjrt_describe(struct sal_stream *s, const struct sal_device_facts **out_facts,
		      struct sal_err *err)
{
	int rc;

	*out_facts = NULL;
	sal_vendor_bag_empty(&s->bag);
	s->facts = (struct sal_device_facts){ 0 };
	rc = sal_vendor_describe(s, &s->bag, &s->facts, err);
	if (rc >= 0)
		*out_facts = &s->facts;
	return rc;
}
