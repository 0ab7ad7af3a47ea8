/* A tensor program as a plain executable: allocates its arguments, calls it twice, needs no library of TVM's.
 * SHAPES (arguments' extents, each argument closed by 0), BITS and FLOATS (their element types) and RESULTS (which of
 * them are written to the second file) come with -D. Called as `kernel [ARGUMENTS [RESULTS]]`: a file with the bytes of
 * all arguments one after the other (without it floats are pseudo-random and integers zero), and one to write. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int32_t type, id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } Type;
typedef struct { void *data; Device device; int32_t ndim; Type type; int64_t *shape, *strides; uint64_t offset; } Tensor;
typedef struct { int32_t type_index, padding; union { void *pointer; int64_t integer; }; } Any;
typedef struct { void *sync; int32_t tasks; } Group;

extern int __tvm_ffi_main(void *self, Any *arguments, int count, Any *result);
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) { abort(); }

static int launch(int (*task)(int, Group *, void *), void *data, int tasks) {
    Group group = {0, 1};
    return task(0, &group, data);
}
static void *allocate(int type, int id, uint64_t bytes, int code, int bits) {
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}
static int release(int type, int id, void *pointer) { free(pointer); return 0; }
int (*__TVMBackendParallelLaunch)(int (*)(int, Group *, void *), void *, int) = launch;
void *(*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int) = allocate;
int (*__TVMBackendFreeWorkspace)(int, int, void *) = release;

static int64_t shapes[] = {SHAPES};
static const int bits[] = {BITS}, floats[] = {FLOATS}, results[] = {RESULTS};
enum { COUNT = sizeof bits / sizeof *bits };
static Tensor tensors[COUNT];
static size_t sizes[COUNT];
static Any arguments[COUNT];

__attribute__((noinline)) int kernel(void) {
    Any result = {0};
    return __tvm_ffi_main(0, arguments, COUNT, &result);
}

int main(int count, char **names) {
    FILE *given = count > 1 ? fopen(names[1], "rb") : 0;
    if (count > 1 && !given) return 2;
    int64_t *shape = shapes;
    uint32_t seed = 1;
    for (int i = 0; i < COUNT; i++) {
        int64_t elements = 1;
        int ndim = 0;
        for (; shape[ndim]; ndim++) elements *= shape[ndim];
        sizes[i] = elements * bits[i] / 8;
        size_t bytes = (sizes[i] + 63) / 64 * 64;
        void *data = aligned_alloc(64, bytes);
        memset(data, 0, bytes);
        if (given) {
            if (fread(data, 1, sizes[i], given) != sizes[i]) return 2;
        } else if (floats[i] && bits[i] == 32)
            for (int64_t at = 0; at < elements; at++) {
                seed = seed * 1664525 + 1013904223;
                ((float *)data)[at] = (int32_t)seed * 0x1p-31f;
            }
        tensors[i] = (Tensor){data, {1, 0}, ndim, {floats[i] ? 2 : 0, bits[i], 1}, shape, 0, 0};
        arguments[i].type_index = 7;
        arguments[i].pointer = &tensors[i];
        shape += ndim + 1;
    }
    if (kernel() || kernel()) return 1;
    FILE *written = count > 2 ? fopen(names[2], "wb") : 0;
    if (count > 2 && !written) return 2;
    for (int i = 0; written && i < COUNT; i++)
        if (results[i] && fwrite(tensors[i].data, 1, sizes[i], written) != sizes[i]) return 2;
    return written && fclose(written) ? 2 : 0;
}
