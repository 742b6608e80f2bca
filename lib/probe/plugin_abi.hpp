#pragma once
// The C interface between the program and a device plug-in, which is loaded at run time: so the
// program itself needs neither CUDA nor NCCL nor MPI. A plug-in exports one function,
// meshplan_probe_plugin(). All calls of one process come from one thread, except abort().
// Sizes are bytes, times seconds. Strings are UTF-8.
// NOLINTBEGIN: names and types of C, so that a plug-in may be written in it
#include <stddef.h>
#include <stdint.h>

extern "C" {

#define MESHPLAN_PROBE_ABI 4u
#define MESHPLAN_PROBE_KEY_SIZE 256
#define MESHPLAN_PROBE_DIVISION 6
#define MESHPLAN_PROBE_SYMBOL "meshplan_probe_plugin"

/* What a call came to. IMPOSSIBLE concerns this operation alone (unsupported, out of memory): the
   next one may be measured. FAILED ends the job. */
enum { MESHPLAN_PROBE_OK = 0, MESHPLAN_PROBE_IMPOSSIBLE = 1, MESHPLAN_PROBE_FAILED = 2 };

typedef struct meshplan_probe_job {
  int64_t rank, ranks;
  int64_t local_rank, local_ranks;
  /* The plug-in counts here the calls that it finished (atomically): how far an operation got. */
  int64_t* progress;
  /* Not zero: stop waiting and return MESHPLAN_PROBE_FAILED. Read it atomically. */
  const int32_t* cancelled;
} meshplan_probe_job;

enum {
  MESHPLAN_PROBE_COLLECTIVE = 0,
  MESHPLAN_PROBE_GEMM = 1,
  MESHPLAN_PROBE_ATTENTION = 2,
  MESHPLAN_PROBE_MEMORY = 3,
  MESHPLAN_PROBE_COPY = 4,
  MESHPLAN_PROBE_LAUNCH = 5,
  MESHPLAN_PROBE_OVERLAP = 6
};

/* Choices are the values of the C++ enums of probe/operation.hpp and spec/kinds.hpp. */
typedef struct meshplan_probe_collective {
  int32_t collective; /* Collective */
  int32_t dtype;      /* Dtype */
  /* Send-recv only. 0: member 0 of two sends to member 1. 1: every member sends to the next one,
     the last to the first, and receives from the one before, all at once. */
  int32_t bidirectional;
  /* Send-recv of two, one way. 1: member 1 sends the message back once it has it, and a call ends
     when member 0 has received that. */
  int32_t ping_pong;
  int64_t bytes;
  /* Ranks of one group have the same `group`; -1: this rank is idle in this operation. */
  int64_t group, member;
  int64_t group_size;
  /* Names the division of ranks into groups, so that communicators can be kept: groups of one
     division have these numbers in common, those of another differ in one of them. */
  int64_t division[MESHPLAN_PROBE_DIVISION]; /* size, stride, concurrent, run, jump, period */
} meshplan_probe_collective;

typedef struct meshplan_probe_gemm {
  int32_t layout;    /* GemmLayout */
  int32_t precision; /* Precision */
  int32_t accumulate;
  int64_t m, n, k, count;
} meshplan_probe_gemm;

typedef struct meshplan_probe_attention {
  int32_t dtype; /* Dtype */
  /* causal: query i sees the keys up to i + keys - queries; the others see all keys. */
  int32_t causal, backward;
  int64_t batch, heads, kv_heads, queries, keys, qk_dim, v_dim;
} meshplan_probe_attention;

typedef struct meshplan_probe_memory {
  int32_t kernel; /* MemoryKernel */
  int32_t dtype;  /* Dtype */
  int64_t rows, columns;
} meshplan_probe_memory;

typedef struct meshplan_probe_copy {
  int32_t direction; /* CopyDirection */
  int64_t bytes;
} meshplan_probe_copy;

typedef struct meshplan_probe_launch {
  int32_t graph;
  int64_t kernels;
} meshplan_probe_launch;

/* The part that `kind` names is filled in; an overlap has both `gemm` and `collective`. */
typedef struct meshplan_probe_operation {
  int32_t kind;
  meshplan_probe_collective collective;
  meshplan_probe_gemm gemm;
  meshplan_probe_attention attention;
  meshplan_probe_memory memory;
  meshplan_probe_copy copy;
  meshplan_probe_launch launch;
} meshplan_probe_operation;

/* Which half of an overlap runs; every other operation has PART_ALL alone. */
enum {
  MESHPLAN_PROBE_PART_ALL = 0,
  MESHPLAN_PROBE_PART_COMPUTE = 1,
  MESHPLAN_PROBE_PART_COMMUNICATION = 2
};

typedef struct meshplan_probe_run {
  int32_t part;
  int64_t calls;       /* issued back to back in each repetition */
  int64_t other_calls; /* of the collective in an overlap's PART_ALL */
  int64_t repetitions; /* ranks begin each together */
  /* `repetitions` times per call each. */
  double* seconds;       /* the operation; of an overlap's PART_ALL the product */
  double* other_seconds; /* of an overlap's PART_ALL: the collective. Else untouched */
  double* host_seconds;  /* host clock around the same calls; negative: not taken */
  /* 1: something else ran on this rank's processor between the ranks' last meeting and the end of
     the repetition, so that its time is not the operation's. Zeros where the plug-in cannot tell.
   */
  double* disturbed;
} meshplan_probe_run;

typedef struct meshplan_probe_text {
  char* text; /* the reason of a failure goes here, ended by a zero */
  size_t size;
} meshplan_probe_text;

typedef void (*meshplan_probe_tell)(void* context, const char* key, const char* value);

typedef struct meshplan_probe_plugin_table {
  uint32_t abi; /* MESHPLAN_PROBE_ABI */
  const char* name;

  /* Devices of this host that this process may use; 0 where there is none or no driver. */
  int64_t (*device_count)(void);

  /* Only where the plug-in brings its own start-up (MPI), else null: fills in the job's ranks, and
     copies `data` of rank 0 to every rank. */
  int (*join)(meshplan_probe_job* job, meshplan_probe_text error);
  int (*exchange)(void* data, size_t size, meshplan_probe_text error);

  /* Takes this rank's device. */
  int (*begin)(const meshplan_probe_job* job, void** handle, meshplan_probe_text error);
  /* Facts: "device", "device_id", "memory_bytes", "accelerator" (0 or 1), "version.NAME". */
  int (*describe)(void* handle, meshplan_probe_tell tell, void* context, meshplan_probe_text error);
  /* On rank 0: what every rank is given to connect() with. */
  int (*make_key)(void* handle, unsigned char key[MESHPLAN_PROBE_KEY_SIZE],
                  meshplan_probe_text error);
  int (*connect)(void* handle, const unsigned char key[MESHPLAN_PROBE_KEY_SIZE],
                 meshplan_probe_text error);

  /* Buffers, communicators, algorithms. finish() follows in any case. */
  int (*prepare)(void* handle, const meshplan_probe_operation* operation,
                 meshplan_probe_text error);
  int (*run)(void* handle, const meshplan_probe_run* run, meshplan_probe_text error);
  /* Runs the operation once on known data. *wrong: the number of elements that are not what they
     have to be; negative: nothing was checked. `note` may say how it was done. */
  int (*check)(void* handle, int64_t* wrong, meshplan_probe_text note, meshplan_probe_text error);
  void (*finish)(void* handle);

  /* Clock of the device now over its default; negative: not known. */
  double (*clock_ratio)(void* handle);

  /* From another thread, while run() does not return: whether the device still does anything at
     all. 1: yes, 0: no. May block. Null where that cannot be asked. */
  int (*answers)(void* handle);
  /* From another thread, while a call above does not return: makes it return if that can be. */
  void (*abort)(void* handle);
  /* After finish(), and never after a failure. */
  void (*end)(void* handle);
} meshplan_probe_plugin_table;

/* Null if the plug-in does not speak this version. */
typedef const meshplan_probe_plugin_table* (*meshplan_probe_plugin_function)(uint32_t abi);

}  // extern "C"
// NOLINTEND
