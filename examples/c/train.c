/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train - a job without Python: loads a PJRT plugin, compiles a program, and trains with it.
 *
 *     salus run -- build/examples/c/train               on the device that salusd owns
 *     build/examples/c/train PATH                       on the PJRT plugin at that path
 *
 * It fits eight weights to 256 points by gradient descent. The weights stay on the device: each
 * step donates the old ones and gives the new ones. Only the loss comes back, every 50 steps.
 * `salus run` tells the path of its plugin in SALUS_PLUGIN.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

#define POINTS 256
#define WEIGHTS 8
#define STEPS 200

/* One step, in the text of StableHLO. The first result takes over the memory of %w. */
static const char program_text[] =
	"module @step {\n"
	"  func.func public @main(%w: tensor<8x1xf32> {tf.aliasing_output = 0 : i32},\n"
	"                         %x: tensor<256x8xf32>, %y: tensor<256x1xf32>)\n"
	"      -> (tensor<8x1xf32>, tensor<f32>) {\n"
	"    %guess = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]\n"
	"      : (tensor<256x8xf32>, tensor<8x1xf32>) -> tensor<256x1xf32>\n"
	"    %error = stablehlo.subtract %guess, %y : tensor<256x1xf32>\n"
	"    %slope = stablehlo.dot_general %x, %error, contracting_dims = [0] x [0]\n"
	"      : (tensor<256x8xf32>, tensor<256x1xf32>) -> tensor<8x1xf32>\n"
	"    %rate = stablehlo.constant dense<0.00078125> : tensor<8x1xf32>\n"
	"    %change = stablehlo.multiply %slope, %rate : tensor<8x1xf32>\n"
	"    %new = stablehlo.subtract %w, %change : tensor<8x1xf32>\n"
	"    %square = stablehlo.multiply %error, %error : tensor<256x1xf32>\n"
	"    %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
	"    %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add\n"
	"      across dimensions = [0, 1] : (tensor<256x1xf32>, tensor<f32>) -> tensor<f32>\n"
	"    %count = stablehlo.constant dense<256.0> : tensor<f32>\n"
	"    %loss = stablehlo.divide %sum, %count : tensor<f32>\n"
	"    return %new, %loss : tensor<8x1xf32>, tensor<f32>\n"
	"  }\n"
	"}\n";

/* A CompileOptionsProto: one replica, one partition. */
static const char compile_options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

/* What a job has: the plugin's functions, a client, its first device. */
struct job {
	const PJRT_Api *api;
	PJRT_Client *client;
	PJRT_Device *device;
};

/* The arguments of a PJRT function: their size first, as the interface wants it. */
#define ARGS(name, var, ...) \
	PJRT_##name##_Args var = { .struct_size = PJRT_##name##_Args_STRUCT_SIZE, ##__VA_ARGS__ }

/* Ends the program if a call failed. */
static void check(const struct job *job, PJRT_Error *error, const char *what)
{
	ARGS(Error_Message, text, .error = error);

	if (!error)
		return;
	job->api->PJRT_Error_Message(&text);
	(void)fprintf(stderr, "%s: %.*s\n", what, (int)text.message_size, text.message);
	exit(1);
}

/* Waits for an event, and destroys it. */
static void await(const struct job *job, PJRT_Event *event, const char *what)
{
	ARGS(Event_Await, wait, .event = event);
	ARGS(Event_Destroy, destroy, .event = event);

	check(job, job->api->PJRT_Event_Await(&wait), what);
	check(job, job->api->PJRT_Event_Destroy(&destroy), what);
}

static void load_plugin(struct job *job, const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const PJRT_Api *(*get_api)(void) = NULL;
	ARGS(Plugin_Initialize, init);

	if (library)
		*(void **)&get_api = dlsym(library, "GetPjrtApi");
	if (!get_api) {
		(void)fprintf(stderr, "no plugin: %s\n", dlerror());
		exit(1);
	}
	job->api = get_api();
	check(job, job->api->PJRT_Plugin_Initialize(&init), "plugin");
}

static void open_client(struct job *job)
{
	ARGS(Client_Create, create);
	ARGS(Client_AddressableDevices, devices);
	ARGS(Client_PlatformName, name);

	check(job, job->api->PJRT_Client_Create(&create), "client");
	job->client = devices.client = name.client = create.client;
	check(job, job->api->PJRT_Client_AddressableDevices(&devices), "devices");
	job->device = devices.addressable_devices[0];
	check(job, job->api->PJRT_Client_PlatformName(&name), "platform");
	(void)printf("platform %.*s\n", (int)name.platform_name_size, name.platform_name);
}

static PJRT_LoadedExecutable *compile(const struct job *job)
{
	PJRT_Program program = {
		.struct_size = PJRT_Program_STRUCT_SIZE,
		.code = (char *)program_text,
		.code_size = sizeof(program_text) - 1,
		.format = "mlir",
		.format_size = 4,
	};
	ARGS(Client_Compile, args, .client = job->client, .program = &program,
	     .compile_options = compile_options, .compile_options_size = sizeof(compile_options));

	check(job, job->api->PJRT_Client_Compile(&args), "compile");
	return args.executable;
}

static PJRT_Buffer *upload(const struct job *job, const float *data, int64_t rows, int64_t columns)
{
	const int64_t dims[] = { rows, columns };
	ARGS(Client_BufferFromHostBuffer, args, .client = job->client, .data = data,
	     .type = PJRT_Buffer_Type_F32, .dims = dims, .num_dims = 2,
	     .host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
	     .device = job->device);

	check(job, job->api->PJRT_Client_BufferFromHostBuffer(&args), "upload");
	await(job, args.done_with_host_buffer, "upload");
	return args.buffer;
}

static void download(const struct job *job, PJRT_Buffer *buffer, float *data, size_t count)
{
	ARGS(Buffer_ToHostBuffer, args, .src = buffer, .dst = data,
	     .dst_size = count * sizeof(*data));

	check(job, job->api->PJRT_Buffer_ToHostBuffer(&args), "download");
	await(job, args.event, "download");
}

static void destroy(const struct job *job, PJRT_Buffer *buffer)
{
	ARGS(Buffer_Destroy, args, .buffer = buffer);

	check(job, job->api->PJRT_Buffer_Destroy(&args), "buffer");
}

/* One iteration. It returns at once: the results are computed later. */
static void run(const struct job *job, PJRT_LoadedExecutable *program,
		PJRT_Buffer *const arguments[3], PJRT_Buffer *results[2])
{
	PJRT_ExecuteOptions options = { .struct_size = PJRT_ExecuteOptions_STRUCT_SIZE };
	PJRT_Buffer *const *const argument_lists[] = { arguments };
	PJRT_Buffer **const result_lists[] = { results };
	ARGS(LoadedExecutable_Execute, args, .executable = program, .options = &options,
	     .argument_lists = argument_lists, .num_devices = 1, .num_args = 3,
	     .output_lists = result_lists, .execute_device = job->device);

	check(job, job->api->PJRT_LoadedExecutable_Execute(&args), "execute");
}

/* Numbers between -1 and 1, the same in every run. */
static float draw(uint64_t *seed)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (float)(*seed >> 40) / 8388608.0f - 1.0f;
}

static void make_points(float *x, float *y)
{
	uint64_t seed = 1;
	int i, j;

	for (i = 0; i < POINTS; i++) {
		y[i] = 0.01f * draw(&seed);
		for (j = 0; j < WEIGHTS; j++) {
			x[i * WEIGHTS + j] = draw(&seed);
			y[i] += x[i * WEIGHTS + j] * (float)(j + 1); /* the right weights */
		}
	}
}

static void train(const struct job *job, PJRT_LoadedExecutable *program)
{
	static float x[POINTS * WEIGHTS], y[POINTS], weights[WEIGHTS];
	PJRT_Buffer *arguments[3], *results[2];
	float loss;
	int step, i;

	make_points(x, y);
	arguments[0] = upload(job, weights, WEIGHTS, 1);
	arguments[1] = upload(job, x, POINTS, WEIGHTS);
	arguments[2] = upload(job, y, POINTS, 1);
	for (step = 1; step <= STEPS; step++) {
		run(job, program, arguments, results);
		destroy(job, arguments[0]); /* donated: only its handle is left */
		arguments[0] = results[0];
		if (step % 50 == 0) {
			download(job, results[1], &loss, 1);
			(void)printf("step %d loss %.9g\n", step, (double)loss);
		}
		destroy(job, results[1]);
	}
	download(job, arguments[0], weights, WEIGHTS);
	for (i = 0; i < WEIGHTS; i++)
		(void)printf("%s%.9g", i ? " " : "weights ", (double)weights[i]);
	(void)printf("\n");
	for (i = 0; i < 3; i++)
		destroy(job, arguments[i]);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : getenv("SALUS_PLUGIN");
	struct job job = { NULL, NULL, NULL };
	PJRT_LoadedExecutable *program;

	if (!path) {
		(void)fprintf(stderr, "usage: train PATH of a plugin, or: salus run -- train\n");
		return 64;
	}
	load_plugin(&job, path);
	open_client(&job);
	program = compile(&job);
	train(&job, program);
	{
		ARGS(LoadedExecutable_Destroy, unload, .executable = program);
		ARGS(Client_Destroy, close, .client = job.client);

		check(&job, job.api->PJRT_LoadedExecutable_Destroy(&unload), "unload");
		check(&job, job.api->PJRT_Client_Destroy(&close), "close");
	}
	return 0;
}
