/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffi - the part of the ABI of XLA's foreign functions that we use.
 *
 * No wheel of the plugin contains these headers, so these are our own declarations for the same
 * ABI, under our own names. PJRT's FFI extension (type 5) registers a handler for the name of a
 * custom call, and attaches data to one execution. XLA calls the handler with a frame: operands,
 * results, attributes, and a table of functions. A handler is first asked for its version, by an
 * extension of the frame. XLA 0.81 accepts version 0.1 and drops a newer handler without a word.
 */
#ifndef SAL_DEVICE_PJRT_FFI_FFI_H
#define SAL_DEVICE_PJRT_FFI_FFI_H

#include <pjrt_c_api.h>

struct ffi_user_data_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_ExecuteContext *context;
	int64_t type_id;
	void *data;
};

struct ffi_register_args {
	size_t struct_size;
	const char *target;
	size_t target_size;
	void *handler;
	const char *platform;
	size_t platform_size;
	int traits;
};

struct ffi_extension {
	PJRT_Extension_Base base;
	void (*type_register)(void);
	PJRT_Error *(*user_data_add)(struct ffi_user_data_args *args);
	PJRT_Error *(*register_handler)(struct ffi_register_args *args);
};

/* The frame of a call */

#define FFI_VERSION_MAJOR 0
#define FFI_VERSION_MINOR 1
#define FFI_EXTENSION_METADATA 1
#define FFI_ATTR_SCALAR 3
#define FFI_STAGE_EXECUTE 3

enum ffi_type {
	FFI_PRED = 1,
	FFI_S8,
	FFI_S16,
	FFI_S32,
	FFI_S64,
	FFI_U8,
	FFI_U16,
	FFI_U32,
	FFI_U64,
	FFI_F16,
	FFI_F32,
	FFI_F64,
	FFI_C64 = 15,
	FFI_BF16 = 16,
	FFI_TOKEN = 17,
	FFI_C128 = 18,
	FFI_F8E5M2 = 19,
	FFI_F8E4M3FN = 20,
	FFI_S4 = 21,
	FFI_U4 = 22,
	FFI_F8E4M3B11FNUZ = 23,
	FFI_F8E5M2FNUZ = 24,
	FFI_F8E4M3FNUZ = 25,
	FFI_S2 = 26,
	FFI_U2 = 27,
	FFI_F8E4M3 = 28,
	FFI_F8E3M4 = 29,
	FFI_F4E2M1FN = 32,
	FFI_F8E8M0FNU = 33
};

struct ffi_extension_base {
	size_t struct_size;
	int type;
	struct ffi_extension_base *next;
};

struct ffi_version {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	int major, minor; /* out */
};

struct ffi_metadata {
	size_t struct_size;
	struct ffi_version version;
	uint32_t traits;
};

struct ffi_metadata_extension {
	struct ffi_extension_base base;
	struct ffi_metadata *metadata;
};

struct ffi_error; /* made by the table's make_error */

struct ffi_error_args {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	const char *message;
	int code; /* enum sal_code */
};

struct ffi_context_args {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	void *context;
	const int64_t *type_id;
	void *data; /* out */
};

struct ffi_destroy_args {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	struct ffi_error *error;
};

struct ffi_api {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	struct ffi_version version;
	const void *internal;
	struct ffi_error *(*make_error)(struct ffi_error_args *args);
	void (*error_message)(void);
	void (*destroy_error)(struct ffi_destroy_args *args);
	void (*handler_register)(void);
	void (*stream_get)(void);
	void (*type_register)(void);
	struct ffi_error *(*context_get)(struct ffi_context_args *args);
};

struct ffi_buffer {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	int type; /* enum ffi_type */
	void *data;
	int64_t rank;
	int64_t *dims;
};

/* Operands and results. `types` says that each is a buffer. */
struct ffi_list {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	int64_t count;
	int *types;
	void **at;
};

struct ffi_span {
	const char *at;
	size_t size;
};

struct ffi_scalar {
	int type; /* enum ffi_type */
	void *value;
};

struct ffi_attrs {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	int64_t count;
	int *types;
	struct ffi_span **names;
	void **at;
};

struct ffi_frame {
	size_t struct_size;
	struct ffi_extension_base *extension_start;
	const struct ffi_api *api;
	void *context;
	int stage;
	struct ffi_list operands, results;
	struct ffi_attrs attrs;
	void *future;
};

#endif
