/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts - the properties of a device and of a compiled program, as plain data.
 *
 * Facts own no memory: every pointer is borrowed from their maker, the vendor's plugin or the bytes
 * from which they were unpacked. The daemon reads them once and sends them to the client, so that
 * the client can answer questions about them by itself.
 */
#ifndef SAL_BASE_FACTS_H
#define SAL_BASE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes, not necessarily with a NUL at the end. */
struct sal_text {
	const char *at;
	size_t size;
};

/* The numbers of PJRT_NamedValue_Type. */
enum sal_value_kind {
	SAL_VALUE_TEXT = 0,
	SAL_VALUE_INT = 1,
	SAL_VALUE_INTS = 2,
	SAL_VALUE_FLOAT = 3,
	SAL_VALUE_BOOL = 4,
};

struct sal_value {
	struct sal_text name;
	enum sal_value_kind kind;
	struct sal_text text; /* SAL_VALUE_TEXT */
	int64_t number; /* SAL_VALUE_INT, SAL_VALUE_BOOL */
	const int64_t *numbers; /* SAL_VALUE_INTS */
	size_t number_count;
	float real; /* SAL_VALUE_FLOAT */
};

struct sal_values {
	const struct sal_value *at;
	size_t count;
};

/*
 * A memory that a device can address. In requests memories have numbers: 0 is the default memory of
 * the device, N + 1 is memories[N] of its facts.
 */
struct sal_memory_facts {
	int32_t id;
	int32_t kind_id;
	struct sal_text kind, debug_string, to_string;
};

/* A chip: one of the devices of a stream that has several. */
struct sal_chip_facts {
	int32_t device_id, local_hardware_id;
	struct sal_text kind, debug_string, to_string;
	struct sal_values attributes;
	const struct sal_memory_facts *memories;
	size_t memory_count;
	size_t default_memory; /* index in memories */
};

/* The first device and the memories it can address, and further devices if there are any. */
struct sal_device_facts {
	struct sal_text platform_name, platform_version;
	/* These are not sent to clients. */
	uint32_t api_major, api_minor; /* of the plugin's interface */
	uint64_t memory_bytes; /* that the device can allocate; 0: the device does not say */
	/* XLA:CPU: the host's memory is the device's, and threads of ours can be its threads. */
	bool is_host;

	struct sal_values plugin_attributes;
	struct sal_values topology_attributes;
	struct sal_text topology; /* serialised; empty if the vendor does not provide it */
	int32_t device_id, process_index, local_hardware_id;
	struct sal_text kind, debug_string, to_string;
	struct sal_values device_attributes;
	const struct sal_memory_facts *memories;
	size_t memory_count;
	size_t default_memory; /* index in memories */
	const struct sal_chip_facts *others; /* devices 1, 2, ... */
	size_t other_count;
};

/* Device and host bytes of a program, from PJRT_Executable_GetCompiledMemoryStats. */
struct sal_program_memory {
	int64_t generated_code, argument, output, alias, temp;
	int64_t host_generated_code, host_argument, host_output, host_alias, host_temp;
	int64_t peak;
};

struct sal_output_facts {
	int32_t type; /* PJRT_Buffer_Type */
	uint32_t rank;
	const int64_t *dims;
	struct sal_text memory_kind;
	struct sal_text layout; /* serialised by the Layouts extension; empty: unknown */
	uint64_t bytes; /* on the device */
};

struct sal_program_facts {
	struct sal_text name, fingerprint;
	uint32_t replicas, partitions;
	int64_t code_bytes;
	const struct sal_output_facts *outputs;
	size_t output_count;
	const uint32_t *donated; /* parameters whose memory an output takes over, ascending */
	size_t donated_count;
	struct sal_program_memory memory;
	struct sal_values costs;
	struct sal_text device_assignment; /* serialised; may be empty */
	/*
	 * The chips that run the program together, in the order of their argument lists. None: the
	 * first chip alone; facts that were unpacked always name it.
	 */
	const uint32_t *chips;
	size_t chip_count;
	bool is_portable; /* runs on any one chip, which each execution names */
};

/* True if this kind of memory is the host's: pinned_host, unpinned_host. */
bool sal_kind_is_host(struct sal_text kind);

/*
 * Size of one element. Types smaller than a byte count as one byte, their size on the host. 0:
 * unknown type.
 */
size_t sal_type_bytes(int32_t type);

#endif
