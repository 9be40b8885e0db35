/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/device.h"

#include <stddef.h>
#include <string.h>

#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/error.h"

PJRT_Error *adp_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args)
{
	args->id = args->device_description->device->facts.device_id;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	args->process_index = args->device_description->device->client->facts->process_index;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args *args)
{
	args->attributes = args->device_description->device->attributes;
	args->num_attributes = args->device_description->device->facts.attributes.count;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args)
{
	ADP_GIVE_TEXT(args, device_kind, args->device_description->device->facts.kind);
}

PJRT_Error *adp_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args *args)
{
	ADP_GIVE_TEXT(args, debug_string, args->device_description->device->facts.debug_string);
}

PJRT_Error *adp_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args *args)
{
	ADP_GIVE_TEXT(args, to_string, args->device_description->device->facts.to_string);
}

PJRT_Error *adp_Device_GetDescription(PJRT_Device_GetDescription_Args *args)
{
	args->device_description = &args->device->description;
	return NULL;
}

PJRT_Error *adp_Device_IsAddressable(PJRT_Device_IsAddressable_Args *args)
{
	args->is_addressable = true;
	return NULL;
}

PJRT_Error *adp_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args *args)
{
	args->local_hardware_id = args->device->facts.local_hardware_id;
	return NULL;
}

PJRT_Error *adp_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args *args)
{
	args->memories = args->device->memory_list;
	args->num_memories = args->device->memory_count;
	return NULL;
}

PJRT_Error *adp_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args *args)
{
	args->memory = adp_memory_default(args->device);
	return NULL;
}

struct memory_stats {
	int64_t live_bytes, peak_bytes, limit_bytes;
};

/*
 * This does not ask the daemon: it works while the daemon is busy or dead, and while the job is
 * paused. A buffer that is being made counts as in use. The peak is the daemon's, or the bytes in
 * use if they are more. The devices of a job share one memory, so all of them report the same.
 */
static struct memory_stats read_memory_stats(PJRT_Client *client)
{
	const struct sal_holding *told = adp_conn_holding(client->conn);
	struct memory_stats now = { .live_bytes = atomic_load(&client->live_bytes) };

	if (!told) {
		now.peak_bytes = atomic_load(&client->peak_bytes);
		now.limit_bytes = (int64_t)adp_conn_memory(client->conn);
		return now;
	}
	now.peak_bytes = (int64_t)atomic_load_explicit(&told->peak_bytes, memory_order_relaxed);
	if (now.peak_bytes < now.live_bytes)
		now.peak_bytes = now.live_bytes;
	now.limit_bytes = (int64_t)atomic_load_explicit(&told->limit_bytes, memory_order_relaxed);
	return now;
}

PJRT_Error *adp_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args)
{
	struct memory_stats now = read_memory_stats(args->device->client);
	size_t size = args->struct_size;

	if (size < offsetof(PJRT_Device_MemoryStats_Args, num_allocs))
		return adp_error(SAL_INVALID_ARGUMENT,
				 "salus: PJRT_Device_MemoryStats_Args is too short");
	memset((char *)args + offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use), 0,
	       (size < sizeof(*args) ? size : sizeof(*args)) -
		       offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use));
	args->bytes_in_use = now.live_bytes;
	args->peak_bytes_in_use = now.peak_bytes;
	args->peak_bytes_in_use_is_set = true;
	if (size >= PJRT_STRUCT_SIZE(PJRT_Device_MemoryStats_Args, bytes_limit_is_set)) {
		args->bytes_limit = now.limit_bytes;
		args->bytes_limit_is_set = true;
	}
	return NULL;
}
