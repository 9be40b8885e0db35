/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layouts - as much of the ABI of PJRT's Layouts extension as we call.
 *
 * The extension's own header is in no wheel, so these are declarations of our own for the same ABI, under
 * our own names. What they rest on: like all of PJRT, it only grows at the end. An extension starts with the
 * common base, whose struct_size covers the functions that a plugin has: we look before we call. The
 * functions come in this order: destroy a layout, serialise one, default layout of a client, layout of a
 * buffer, default layout of a topology, layouts of a program's outputs. A layout that was got from a program
 * belongs to that program; the bytes of a serialised one live until its deleter is called.
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
