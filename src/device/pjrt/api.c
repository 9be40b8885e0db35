/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin: loading, versions, errors, events. */
#include "device/pjrt/vendor.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* 0.57 changed the order of fields; older versions have another interface. */
#define OLDEST_MINOR 57

/* Longer messages of a vendor are cut to this size. */
#define MESSAGE_BYTES_MAX 1024

#define ENTRY(name)                             \
	{                                       \
		offsetof(PJRT_Api, name), #name \
	}

/* Entries that every plugin must have. */
static const struct {
	size_t offset;
	const char *name;
} entries[] = {
	ENTRY(PJRT_Error_Destroy),
	ENTRY(PJRT_Error_Message),
	ENTRY(PJRT_Error_GetCode),
	ENTRY(PJRT_Event_Destroy),
	ENTRY(PJRT_Event_OnReady),
	ENTRY(PJRT_Client_Create),
	ENTRY(PJRT_Client_Destroy),
	ENTRY(PJRT_Client_PlatformName),
	ENTRY(PJRT_Client_PlatformVersion),
	ENTRY(PJRT_Client_AddressableDevices),
	ENTRY(PJRT_Client_Compile),
	ENTRY(PJRT_Client_BufferFromHostBuffer),
	ENTRY(PJRT_DeviceDescription_Id),
	ENTRY(PJRT_DeviceDescription_ProcessIndex),
	ENTRY(PJRT_DeviceDescription_Attributes),
	ENTRY(PJRT_DeviceDescription_Kind),
	ENTRY(PJRT_DeviceDescription_DebugString),
	ENTRY(PJRT_DeviceDescription_ToString),
	ENTRY(PJRT_Device_GetDescription),
	ENTRY(PJRT_Device_LocalHardwareId),
	ENTRY(PJRT_Executable_Destroy),
	ENTRY(PJRT_Executable_Name),
	ENTRY(PJRT_Executable_NumReplicas),
	ENTRY(PJRT_Executable_NumPartitions),
	ENTRY(PJRT_Executable_NumOutputs),
	ENTRY(PJRT_Executable_OutputElementTypes),
	ENTRY(PJRT_Executable_OutputDimensions),
	ENTRY(PJRT_LoadedExecutable_Destroy),
	ENTRY(PJRT_LoadedExecutable_GetExecutable),
	ENTRY(PJRT_LoadedExecutable_Execute),
	ENTRY(PJRT_Buffer_Destroy),
	ENTRY(PJRT_Buffer_Dimensions),
	ENTRY(PJRT_Buffer_ReadyEvent),
	ENTRY(PJRT_Buffer_ToHostBuffer),
};

static int check_api(const PJRT_Api *api, const char *path, struct sal_err *err)
{
	int major, minor;

	if (api->struct_size < offsetof(PJRT_Api, PJRT_Error_Destroy))
		return sal_err_set(err, SAL_FAILED_PRECONDITION, "%s: the plugin has no version",
				   path);
	major = api->pjrt_api_version.major_version;
	minor = api->pjrt_api_version.minor_version;
	if (major != PJRT_API_MAJOR || minor < OLDEST_MINOR)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "%s: the plugin has PJRT %d.%d, but Salus needs %d.%d or newer",
				   path, major, minor, PJRT_API_MAJOR, OLDEST_MINOR);
	for (size_t i = 0; i < SAL_COUNT(entries); i++) {
		void (*entry)(void) = NULL;

		if (entries[i].offset + sizeof(entry) <= api->struct_size)
			memcpy(&entry, (const char *)api + entries[i].offset, sizeof(entry));
		if (!entry)
			return sal_err_set(err, SAL_FAILED_PRECONDITION, "%s: the plugin has no %s",
					   path, entries[i].name);
	}
	return SAL_OK;
}

static const struct layouts_extension *find_layouts(const PJRT_Api *api)
{
	const PJRT_Extension_Base *e = api->extension_start;

	while (e && e->type != PJRT_Extension_Type_Layouts)
		e = e->next;
	if (!e || e->struct_size < sizeof(struct layouts_extension))
		return NULL;
	return (const struct layouts_extension *)e;
}

/*
 * XLA:CPU ends the process if one device waits too long for another in a collective: one slow job
 * would end all jobs. XLA takes this limit from its environment only, when it makes its first
 * client. A negative number means no limit. XLA also ends the process if it does not know a flag,
 * so we look for the name in the plugin's constants first.
 */
#define LIMIT_FLAG "xla_cpu_collective_call_terminate_timeout_seconds"

static int find_limit(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	if (info->dlpi_addr != *(ElfW(Addr) *)base)
		return 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && p->p_flags == PF_R &&
		    memmem((const void *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, LIMIT_FLAG,
			   sizeof(LIMIT_FLAG)))
			return 1;
	}
	return 0;
}

static void lift_limit(void *library)
{
	const char *flags = getenv("XLA_FLAGS");
	struct link_map *map = NULL;
	char *longer = NULL;

	if ((flags && strstr(flags, LIMIT_FLAG)) || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 ||
	    dl_iterate_phdr(find_limit, &map->l_addr) == 0)
		return;
	if (asprintf(&longer, "%s --" LIMIT_FLAG "=-1", flags ? flags : "") >= 0)
		(void)setenv("XLA_FLAGS", longer, 1);
	free(longer);
}

static int get_api(const char *path, const PJRT_Api **out_api, struct sal_err *err)
{
	const PJRT_Api *(*get)(void);
	void *library;
	void *symbol;

	*out_api = NULL;
	/* Never unloaded: unloading code whose threads still run crashes. */
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library)
		return sal_err_set(err, SAL_NOT_FOUND, "%s", dlerror());
	symbol = dlsym(library, "GetPjrtApi");
	if (!symbol) {
		dlclose(library);
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "%s: not a PJRT plugin: it has no GetPjrtApi", path);
	}
	lift_limit(library);
	memcpy(&get, &symbol, sizeof(get));
	*out_api = get();
	dlclose(library); /* only our reference */
	if (!*out_api)
		return sal_err_set(err, SAL_FAILED_PRECONDITION, "%s: GetPjrtApi returned NULL",
				   path);
	return SAL_OK;
}

int sal_vendor_load(struct sal_device *d, const char *path, struct sal_err *err)
{
	const PJRT_Api *api;
	int rc;

	if (!path || !*path)
		return sal_err_set(err, SAL_INVALID_ARGUMENT, "no path of a PJRT plugin was given");
	rc = get_api(path, &api, err);
	if (!api)
		return rc;
	rc = check_api(api, path, err);
	if (rc < 0)
		return rc;
	d->api = api;
	if (d->api->pjrt_api_version.minor_version > PJRT_API_MINOR)
		d->tail = VENDOR_TAIL;
	d->layouts = find_layouts(d->api);

	if (VENDOR_HAS(d, PJRT_Plugin_Initialize)) {
		VENDOR_ARGS(d, PJRT_Plugin_Initialize_Args, init, .extension_start = NULL);

		return sal_vendor_check(d, d->api->PJRT_Plugin_Initialize(&init.args), err);
	}
	return SAL_OK;
}

static int error_code(const struct sal_device *d, const PJRT_Error *error)
{
	VENDOR_ARGS(d, PJRT_Error_GetCode_Args, get, .error = error);

	sal_vendor_drop(d, d->api->PJRT_Error_GetCode(&get.args));
	if (get.args.code <= PJRT_Error_Code_OK || get.args.code > PJRT_Error_Code_UNAUTHENTICATED)
		return SAL_UNKNOWN;
	return (int)get.args.code;
}

/* Makes one line of the vendor's message, which may have several, with indentation. */
static void error_text(const struct sal_device *d, const PJRT_Error *error, char *text, size_t size)
{
	size_t used = 0;

	VENDOR_ARGS(d, PJRT_Error_Message_Args, get, .error = error);

	d->api->PJRT_Error_Message(&get.args);
	for (size_t i = 0; i < get.args.message_size && used + 1 < size; i++) {
		char c = get.args.message[i];

		if (c == '\n' || c == '\r' || c == '\t' || c == '\0')
			c = ' ';
		if (c != ' ' || (used > 0 && text[used - 1] != ' '))
			text[used++] = c;
	}
	text[used] = '\0';
}

static void error_destroy(const struct sal_device *d, PJRT_Error *error)
{
	VENDOR_ARGS(d, PJRT_Error_Destroy_Args, destroy, .error = error);

	d->api->PJRT_Error_Destroy(&destroy.args);
}

int sal_vendor_check(const struct sal_device *d, PJRT_Error *error, struct sal_err *err)
{
	char text[MESSAGE_BYTES_MAX];
	int code;

	if (!error)
		return SAL_OK;
	code = error_code(d, error);
	error_text(d, error, text, sizeof(text));
	error_destroy(d, error);
	return sal_err_set(err, (enum sal_code)code, "%s", text);
}

void sal_vendor_drop(const struct sal_device *d, PJRT_Error *error)
{
	if (error)
		error_destroy(d, error);
}

/* Events */

struct waiter {
	const struct sal_device *device; /* borrowed */
	sal_done_fn *done;
	void *ctx;
};

static void call_done(const struct sal_device *d, PJRT_Error *take_error, sal_done_fn *done,
		      void *ctx)
{
	char text[MESSAGE_BYTES_MAX];
	int code;

	if (!take_error) {
		done(ctx, SAL_OK, "");
		return;
	}
	code = error_code(d, take_error);
	error_text(d, take_error, text, sizeof(text));
	error_destroy(d, take_error);
	done(ctx, code, text);
}

static void on_ready(PJRT_Error *error, void *arg)
{
	struct waiter w = *(struct waiter *)arg;

	free(arg);
	call_done(w.device, error, w.done, w.ctx);
}

static PJRT_Error *await(const struct sal_device *d, PJRT_Event *event)
{
	VENDOR_ARGS(d, PJRT_Event_Await_Args, wait, .event = event);

	return VENDOR_HAS(d, PJRT_Event_Await) ? d->api->PJRT_Event_Await(&wait.args) : NULL;
}

int sal_vendor_await(const struct sal_device *d, PJRT_Event *take_event, struct sal_err *err)
{
	int rc;

	VENDOR_ARGS(d, PJRT_Event_Destroy_Args, destroy, .event = take_event);

	if (!take_event)
		return SAL_OK;
	rc = sal_vendor_check(d, await(d, take_event), err);
	sal_vendor_drop(d, d->api->PJRT_Event_Destroy(&destroy.args));
	return rc;
}

/*
 * The event is destroyed right after the callback is registered, possibly before it fires. Plugins
 * must support this, since JAX does the same.
 */
void sal_vendor_when(const struct sal_device *d, PJRT_Event *take_event, sal_done_fn *done,
		     void *ctx)
{
	VENDOR_ARGS(d, PJRT_Event_Destroy_Args, destroy, .event = take_event);

	if (done && !take_event) {
		done(ctx, SAL_OK, "");
	} else if (done) {
		struct waiter *w = malloc(sizeof(*w));

		VENDOR_ARGS(d, PJRT_Event_OnReady_Args, on, .event = take_event,
			    .callback = on_ready, .user_arg = w);
		if (w) {
			PJRT_Error *error;

			*w = (struct waiter){ .device = d, .done = done, .ctx = ctx };
			error = d->api->PJRT_Event_OnReady(&on.args);
			if (error)
				on_ready(error, w);
		} else {
			/* Waits here, so that done is called at all. */
			call_done(d, await(d, take_event), done, ctx);
		}
	}
	if (take_event)
		sal_vendor_drop(d, d->api->PJRT_Event_Destroy(&destroy.args));
}
