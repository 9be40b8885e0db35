/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts - questions about a compiled program. The facts that came with it answer them; the daemon
 * is not asked.
 */
#ifndef SAL_ADAPTOR_PROGRAM_FACTS_H
#define SAL_ADAPTOR_PROGRAM_FACTS_H

#include "adaptor/function.h"

ADP_FUNCTION(Executable_Name);
ADP_FUNCTION(Executable_NumReplicas);
ADP_FUNCTION(Executable_NumPartitions);
ADP_FUNCTION(Executable_NumOutputs);
ADP_FUNCTION(Executable_SizeOfGeneratedCodeInBytes);
ADP_FUNCTION(Executable_GetCostAnalysis);
ADP_FUNCTION(Executable_OutputMemoryKinds);
ADP_FUNCTION(Executable_OutputElementTypes);
ADP_FUNCTION(Executable_OutputDimensions);
ADP_FUNCTION(Executable_Fingerprint);
ADP_FUNCTION(Executable_GetCompiledMemoryStats);
ADP_FUNCTION(LoadedExecutable_Fingerprint);
ADP_FUNCTION(LoadedExecutable_GetDeviceAssignment);

#endif
