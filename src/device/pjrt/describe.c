/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of the plugin, its device and the device's memories. */
#include "device/pjrt/vendor.h"

#include <string.h>

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

static int describe_plugin(struct sal_device *d, struct sal_err *err)
{
	struct sal_device_facts *f = &d->facts;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_PlatformName_Args, name, .client = d->first->client);
	VENDOR_ARGS(d, PJRT_Client_PlatformVersion_Args, version, .client = d->first->client);
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
	return sal_vendor_values(&d->bag, attributes.args.attributes,
				 attributes.args.num_attributes, &f->plugin_attributes, err);
}

/* Not all plugins have a topology. Its facts are empty then. */
static int describe_topology(struct sal_device *d, struct sal_err *err)
{
	PJRT_TopologyDescription *topology;
	struct sal_device_facts *f = &d->facts;
	int rc;

	VENDOR_ARGS(d, PJRT_Client_TopologyDescription_Args, get, .client = d->first->client);

	if (!VENDOR_HAS(d, PJRT_Client_TopologyDescription) ||
	    sal_vendor_check(d, d->api->PJRT_Client_TopologyDescription(&get.args), NULL) < 0)
		return SAL_OK;
	topology = get.args.topology;
	if (VENDOR_HAS(d, PJRT_TopologyDescription_Attributes)) {
		VENDOR_ARGS(d, PJRT_TopologyDescription_Attributes_Args, list,
			    .topology = topology);

		if (sal_vendor_check(d, d->api->PJRT_TopologyDescription_Attributes(&list.args),
				     NULL) == SAL_OK) {
			rc = sal_vendor_values(&d->bag, list.args.attributes,
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
		f->topology = sal_vendor_bag_text(&d->bag, ser.args.serialized_bytes,
						  ser.args.serialized_bytes_size);
		if (ser.args.serialized_topology_deleter)
			ser.args.serialized_topology_deleter(ser.args.serialized_topology);
		if (!f->topology.at)
			return no_memory(err);
	}
	return SAL_OK;
}

static int describe_texts(struct sal_device *d, PJRT_DeviceDescription *about, struct sal_err *err)
{
	struct sal_device_facts *f = &d->facts;
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

static int describe_chip(struct sal_device *d, struct sal_err *err)
{
	struct sal_device_facts *f = &d->facts;
	PJRT_DeviceDescription *about;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_GetDescription_Args, get, .device = d->first->chip);
	VENDOR_ARGS(d, PJRT_Device_LocalHardwareId_Args, local, .device = d->first->chip);
	VENDOR_ARGS(d, PJRT_DeviceDescription_Id_Args, id, .extension_start = NULL);
	VENDOR_ARGS(d, PJRT_DeviceDescription_ProcessIndex_Args, process, .extension_start = NULL);
	VENDOR_ARGS(d, PJRT_DeviceDescription_Attributes_Args, list, .extension_start = NULL);

	rc = sal_vendor_check(d, d->api->PJRT_Device_GetDescription(&get.args), err);
	if (rc < 0)
		return rc;
	about = get.args.device_description;
	rc = sal_vendor_check(d, d->api->PJRT_Device_LocalHardwareId(&local.args), err);
	if (rc < 0)
		return rc;
	f->local_hardware_id = local.args.local_hardware_id;
	id.args.device_description = about;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_Id(&id.args), err);
	if (rc < 0)
		return rc;
	f->device_id = id.args.id;
	process.args.device_description = about;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_ProcessIndex(&process.args), err);
	if (rc < 0)
		return rc;
	f->process_index = process.args.process_index;
	rc = describe_texts(d, about, err);
	if (rc < 0)
		return rc;
	list.args.device_description = about;
	rc = sal_vendor_check(d, d->api->PJRT_DeviceDescription_Attributes(&list.args), err);
	if (rc < 0)
		return rc;
	return sal_vendor_values(&d->bag, list.args.attributes, list.args.num_attributes,
				 &f->device_attributes, err);
}

/* The kind's id is 0 for plugins that are older than these ids. */
static int describe_memory(struct sal_device *d, PJRT_Memory *memory, struct sal_memory_facts *out,
			   struct sal_err *err)
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

static int describe_memories(struct sal_device *d, struct sal_err *err)
{
	struct sal_device_facts *f = &d->facts;
	struct sal_memory_facts *memories;
	size_t count;
	int rc;

	VENDOR_ARGS(d, PJRT_Device_AddressableMemories_Args, list, .device = d->first->chip);

	if (!can_describe_memories(d) ||
	    sal_vendor_check(d, d->api->PJRT_Device_AddressableMemories(&list.args), NULL) < 0)
		return SAL_OK;
	count = list.args.num_memories;
	memories = sal_vendor_bag_take(&d->bag, count, sizeof(*memories));
	if (!memories)
		return no_memory(err);
	for (size_t i = 0; i < count; i++) {
		rc = describe_memory(d, list.args.memories[i], &memories[i], err);
		if (rc < 0)
			return rc;
		if (list.args.memories[i] == d->first->memory)
			f->default_memory = i;
	}
	f->memories = memories;
	f->memory_count = count;
	return SAL_OK;
}

/* Asks a small buffer: the name of a platform does not say where its memory is. */
static bool is_host(struct sal_device *d)
{
	static const struct sal_array array = { .type = PJRT_Buffer_Type_U8 };
	struct sal_text name = d->facts.platform_name;
	struct sal_buffer *b = NULL;
	bool is_reached;

	if (name.size != 3 || memcmp(name.at, "cpu", 3) != 0 ||
	    !VENDOR_HAS(d, PJRT_Buffer_IsOnCpu) ||
	    sal_pjrt_upload(d->first, &array, "", SAL_UPLOAD_COPY, NULL, NULL, &b, NULL) < 0)
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

static void describe_capacity(struct sal_device *d)
{
	VENDOR_ARGS(d, PJRT_Device_MemoryStats_Args, get, .device = d->first->chip);

	d->facts.is_host = is_host(d);
	if (VENDOR_HAS(d, PJRT_Device_MemoryStats) &&
	    sal_vendor_check(d, d->api->PJRT_Device_MemoryStats(&get.args), NULL) >= 0 &&
	    get.args.bytes_limit_is_set && get.args.bytes_limit > 0)
		d->facts.memory_bytes = (uint64_t)get.args.bytes_limit;
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

int sal_vendor_describe(struct sal_device *d, struct sal_err *err)
{
	int rc;

	rc = describe_plugin(d, err);
	if (rc < 0)
		return rc;
	rc = describe_topology(d, err);
	if (rc < 0)
		return rc;
	rc = describe_chip(d, err);
	if (rc < 0)
		return rc;
	rc = describe_memories(d, err);
	if (rc >= 0)
		describe_capacity(d);
	return rc;
}
