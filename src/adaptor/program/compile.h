/* SPDX-License-Identifier: Apache-2.0 */
/* compile - a program to the daemon, as text to compile or as a sealed blob to load. Both wait. */
#ifndef SAL_ADAPTOR_PROGRAM_COMPILE_H
#define SAL_ADAPTOR_PROGRAM_COMPILE_H

#include "adaptor/function.h"

ADP_FUNCTION(Client_Compile);
ADP_FUNCTION(Executable_DeserializeAndLoad);

#endif
