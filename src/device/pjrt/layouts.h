/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layouts - the part of the ABI of PJRT's Layouts extension that we call.
 *
 * No wheel contains the extension's header, so these are our own declarations for the same ABI,
 * under our own names. They assume that the extension, like all of PJRT, only grows at its end. An
 * extension starts with the common base. Its struct_size tells which functions a plugin has, and we
 * check it before each call. The functions come in this order: destroy a layout, serialise one,
 * default layout of a client, layout of a buffer, default layout of a topology, layouts of a
 * program's outputs. A layout from a program belongs to that program. The bytes of a serialised
 * layout are valid until its deleter is called.
 */
#ifndef SAL_DEVICE_PJRT_LAYOUTS_H
#define SAL_DEVICE_PJRT_LAYOUTS_H

#include <pjrt_c_api.h>

struct layouts_serialize_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	void *layout;
	const char *bytes; /* out */
	size_t byte_count; /* out */
	void *backing; /* out */
	void (*delete_backing)(void *backing); /* out */
};

struct layouts_outputs_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	size_t count; /* out */
	void **layouts; /* out */
};

struct layouts_extension {
	PJRT_Extension_Base base;
	void (*destroy)(void);
	PJRT_Error *(*serialize)(struct layouts_serialize_args *args);
	void (*client_default)(void);
	void (*of_buffer)(void);
	void (*topology_default)(void);
	PJRT_Error *(*of_outputs)(struct layouts_outputs_args *args);
};

#endif
