/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api - the table of functions of PJRT 0.81, and the symbol that leads to it.
 *
 * Every slot is filled: a function that is not implemented returns an error with its name. A newer
 * framework calls nothing beyond the version and struct_size that the table states.
 */
#include <pthread.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/download.h"
#include "adaptor/buffer/host.h"
#include "adaptor/buffer/layouts.h"
#include "adaptor/buffer/upload.h"
#include "adaptor/client/attributes.h"
#include "adaptor/client/client.h"
#include "adaptor/client/device.h"
#include "adaptor/client/memory.h"
#include "adaptor/client/topology.h"
#include "adaptor/error.h"
#include "adaptor/event.h"
#include "adaptor/program/compile.h"
#include "adaptor/program/execute.h"
#include "adaptor/program/facts.h"
#include "adaptor/program/fetch.h"
#include "adaptor/program/program.h"
#include "adaptor/python/context.h"

/* A function of the table that is not implemented. */
#define ADP_MISSING(name)                                                                        \
	static PJRT_Error *missing_##name(PJRT_##name##_Args *args)                              \
	{                                                                                        \
		(void)args;                                                                      \
		return adp_error(SAL_UNIMPLEMENTED, "salus: PJRT_" #name " is not implemented"); \
	}

ADP_MISSING(CopyToDeviceStream_Destroy)
ADP_MISSING(CopyToDeviceStream_AddChunk)
ADP_MISSING(CopyToDeviceStream_TotalBytes)
ADP_MISSING(CopyToDeviceStream_GranuleSize)
ADP_MISSING(CopyToDeviceStream_CurrentBytes)
ADP_MISSING(TopologyDescription_Create)
ADP_MISSING(Compile)
ADP_MISSING(AsyncHostToDeviceTransferManager_Destroy)
ADP_MISSING(AsyncHostToDeviceTransferManager_TransferData)
ADP_MISSING(Client_CreateBuffersForAsyncHostToDevice)
ADP_MISSING(AsyncHostToDeviceTransferManager_RetrieveBuffer)
ADP_MISSING(AsyncHostToDeviceTransferManager_Device)
ADP_MISSING(AsyncHostToDeviceTransferManager_BufferCount)
ADP_MISSING(AsyncHostToDeviceTransferManager_BufferSize)
ADP_MISSING(AsyncHostToDeviceTransferManager_SetBufferError)
ADP_MISSING(AsyncHostToDeviceTransferManager_AddMetadata)
ADP_MISSING(TopologyDescription_Deserialize)
ADP_MISSING(Client_CreateAliasBuffer)
ADP_MISSING(Client_FulfillAliasBuffer)

#define HAVE(name) .PJRT_##name = adp_##name
#define MISS(name) .PJRT_##name = missing_##name

static const PJRT_Api api = {
	.struct_size = PJRT_Api_STRUCT_SIZE,
	.pjrt_api_version = {
		.struct_size = PJRT_Api_Version_STRUCT_SIZE,
		.major_version = PJRT_API_MAJOR,
		.minor_version = PJRT_API_MINOR,
	},
	HAVE(Error_Destroy),
	HAVE(Error_Message),
	HAVE(Error_GetCode),
	HAVE(Plugin_Initialize),
	HAVE(Plugin_Attributes),
	HAVE(Event_Destroy),
	HAVE(Event_IsReady),
	HAVE(Event_Error),
	HAVE(Event_Await),
	HAVE(Event_OnReady),
	HAVE(Client_Create),
	HAVE(Client_Destroy),
	HAVE(Client_PlatformName),
	HAVE(Client_ProcessIndex),
	HAVE(Client_PlatformVersion),
	HAVE(Client_Devices),
	HAVE(Client_AddressableDevices),
	HAVE(Client_LookupDevice),
	HAVE(Client_LookupAddressableDevice),
	HAVE(Client_AddressableMemories),
	HAVE(Client_Compile),
	HAVE(Client_DefaultDeviceAssignment),
	HAVE(Client_BufferFromHostBuffer),
	HAVE(DeviceDescription_Id),
	HAVE(DeviceDescription_ProcessIndex),
	HAVE(DeviceDescription_Attributes),
	HAVE(DeviceDescription_Kind),
	HAVE(DeviceDescription_DebugString),
	HAVE(DeviceDescription_ToString),
	HAVE(Device_GetDescription),
	HAVE(Device_IsAddressable),
	HAVE(Device_LocalHardwareId),
	HAVE(Device_AddressableMemories),
	HAVE(Device_DefaultMemory),
	HAVE(Device_MemoryStats),
	HAVE(Memory_Id),
	HAVE(Memory_Kind),
	HAVE(Memory_DebugString),
	HAVE(Memory_ToString),
	HAVE(Memory_AddressableByDevices),
	HAVE(Executable_Destroy),
	HAVE(Executable_Name),
	HAVE(Executable_NumReplicas),
	HAVE(Executable_NumPartitions),
	HAVE(Executable_NumOutputs),
	HAVE(Executable_SizeOfGeneratedCodeInBytes),
	HAVE(Executable_GetCostAnalysis),
	HAVE(Executable_OutputMemoryKinds),
	HAVE(Executable_OptimizedProgram),
	HAVE(Executable_Serialize),
	HAVE(LoadedExecutable_Destroy),
	HAVE(LoadedExecutable_GetExecutable),
	HAVE(LoadedExecutable_AddressableDevices),
	HAVE(LoadedExecutable_Delete),
	HAVE(LoadedExecutable_IsDeleted),
	HAVE(LoadedExecutable_Execute),
	HAVE(Executable_DeserializeAndLoad),
	HAVE(LoadedExecutable_Fingerprint),
	HAVE(Buffer_Destroy),
	HAVE(Buffer_ElementType),
	HAVE(Buffer_Dimensions),
	HAVE(Buffer_UnpaddedDimensions),
	HAVE(Buffer_DynamicDimensionIndices),
	HAVE(Buffer_GetMemoryLayout),
	HAVE(Buffer_OnDeviceSizeInBytes),
	HAVE(Buffer_Device),
	HAVE(Buffer_Memory),
	HAVE(Buffer_Delete),
	HAVE(Buffer_IsDeleted),
	HAVE(Buffer_CopyToDevice),
	HAVE(Buffer_ToHostBuffer),
	HAVE(Buffer_IsOnCpu),
	HAVE(Buffer_ReadyEvent),
	HAVE(Buffer_UnsafePointer),
	HAVE(Buffer_IncreaseExternalReferenceCount),
	HAVE(Buffer_DecreaseExternalReferenceCount),
	HAVE(Buffer_OpaqueDeviceMemoryDataPointer),
	MISS(CopyToDeviceStream_Destroy),
	MISS(CopyToDeviceStream_AddChunk),
	MISS(CopyToDeviceStream_TotalBytes),
	MISS(CopyToDeviceStream_GranuleSize),
	MISS(CopyToDeviceStream_CurrentBytes),
	MISS(TopologyDescription_Create),
	HAVE(TopologyDescription_Destroy),
	HAVE(TopologyDescription_PlatformName),
	HAVE(TopologyDescription_PlatformVersion),
	HAVE(TopologyDescription_GetDeviceDescriptions),
	HAVE(TopologyDescription_Serialize),
	HAVE(TopologyDescription_Attributes),
	MISS(Compile),
	HAVE(Executable_OutputElementTypes),
	HAVE(Executable_OutputDimensions),
	HAVE(Buffer_CopyToMemory),
	HAVE(Client_CreateViewOfDeviceBuffer),
	HAVE(Executable_Fingerprint),
	HAVE(Client_TopologyDescription),
	HAVE(Executable_GetCompiledMemoryStats),
	HAVE(Memory_Kind_Id),
	HAVE(ExecuteContext_Create),
	HAVE(ExecuteContext_Destroy),
	HAVE(Buffer_CopyRawToHost),
	MISS(AsyncHostToDeviceTransferManager_Destroy),
	MISS(AsyncHostToDeviceTransferManager_TransferData),
	MISS(Client_CreateBuffersForAsyncHostToDevice),
	MISS(AsyncHostToDeviceTransferManager_RetrieveBuffer),
	MISS(AsyncHostToDeviceTransferManager_Device),
	MISS(AsyncHostToDeviceTransferManager_BufferCount),
	MISS(AsyncHostToDeviceTransferManager_BufferSize),
	MISS(AsyncHostToDeviceTransferManager_SetBufferError),
	MISS(AsyncHostToDeviceTransferManager_AddMetadata),
	HAVE(Client_DmaMap),
	HAVE(Client_DmaUnmap),
	HAVE(Client_CreateUninitializedBuffer),
	HAVE(Client_UpdateGlobalProcessInfo),
	MISS(TopologyDescription_Deserialize),
	MISS(Client_CreateAliasBuffer),
	MISS(Client_FulfillAliasBuffer),
	HAVE(LoadedExecutable_GetDeviceAssignment),
};

const PJRT_Api *GetPjrtApi(void);

/* The first call fills in the chain of extensions. */
__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void)
{
	static PJRT_Api table;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	(void)pthread_mutex_lock(&lock);
	if (table.struct_size == 0) {
		table = api;
		table.extension_start = adp_ffi_extension(adp_extensions);
	}
	(void)pthread_mutex_unlock(&lock);
	return &table;
}
