/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/memory.h"

#include <string.h>

#include "adaptor/client/client.h"

PJRT_Memory *adp_memory_default(PJRT_Device *device)
{
	return &device->memories[device->facts.default_memory];
}

PJRT_Memory *adp_memory_of_kind(PJRT_Device *device, struct sal_text kind)
{
	size_t i;

	for (i = 0; i < device->memory_count; i++) {
		struct sal_text k = device->memories[i].facts->kind;

		if (k.size == kind.size && memcmp(k.at, kind.at, k.size) == 0)
			return &device->memories[i];
	}
	return adp_memory_default(device);
}

uint8_t adp_memory_number(const PJRT_Memory *memory)
{
	const PJRT_Device *device = memory->device;
	size_t index = (size_t)(memory - device->memories);

	return index == device->facts.default_memory ? 0 : (uint8_t)(index + 1);
}

bool adp_memory_is_host(const PJRT_Memory *memory)
{
	return adp_memory_number(memory) > 0 && sal_kind_is_host(memory->facts->kind);
}

PJRT_Error *adp_Memory_Id(PJRT_Memory_Id_Args *args)
{
	args->id = args->memory->facts->id;
	return NULL;
}

PJRT_Error *adp_Memory_Kind(PJRT_Memory_Kind_Args *args)
{
	ADP_GIVE_TEXT(args, kind, args->memory->facts->kind);
}

PJRT_Error *adp_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args *args)
{
	args->kind_id = args->memory->facts->kind_id;
	return NULL;
}

PJRT_Error *adp_Memory_DebugString(PJRT_Memory_DebugString_Args *args)
{
	ADP_GIVE_TEXT(args, debug_string, args->memory->facts->debug_string);
}

PJRT_Error *adp_Memory_ToString(PJRT_Memory_ToString_Args *args)
{
	ADP_GIVE_TEXT(args, to_string, args->memory->facts->to_string);
}

PJRT_Error *adp_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args *args)
{
	args->devices = &args->memory->device->client->devices[args->memory->device->number];
	args->num_devices = 1;
	return NULL;
}
