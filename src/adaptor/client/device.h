/* SPDX-License-Identifier: Apache-2.0 */
/* device - the one device of a client, and its description. */
#ifndef SAL_ADAPTOR_CLIENT_DEVICE_H
#define SAL_ADAPTOR_CLIENT_DEVICE_H

#include "adaptor/function.h"

struct PJRT_DeviceDescription {
	PJRT_Client *client; /* borrowed: whose it is */
};

struct PJRT_Device {
	PJRT_Client *client; /* borrowed: whose it is */
};

ADP_FUNCTION(DeviceDescription_Id);
ADP_FUNCTION(DeviceDescription_ProcessIndex);
ADP_FUNCTION(DeviceDescription_Attributes);
ADP_FUNCTION(DeviceDescription_Kind);
ADP_FUNCTION(DeviceDescription_DebugString);
ADP_FUNCTION(DeviceDescription_ToString);
ADP_FUNCTION(Device_GetDescription);
ADP_FUNCTION(Device_IsAddressable);
ADP_FUNCTION(Device_LocalHardwareId);
ADP_FUNCTION(Device_AddressableMemories);
ADP_FUNCTION(Device_DefaultMemory);
ADP_FUNCTION(Device_MemoryStats);

#endif
