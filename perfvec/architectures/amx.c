/* The blocks of a gated convolution (convolution.py) on AMX's matrix tiles, for rows of WIDTH numbers and KERNEL taps.
 *
 * A group of products computes 32 rows (of a time step's sequences, then of the next step's) by 32 columns, in four
 * tiles of float32. TMUL works for 16 cycles on each product while the other units are idle, so the vector work on a
 * group's result (the gated unit; the sum and its rounding) is spread between the products of the group that follows, a
 * few rows after each step of its inner dimension. Nothing but a block's rounded inputs and the float32 sum goes
 * through memory.
 *
 * What is rounded to bfloat16 must not be off on average, for a loop repeats the same few rows. So the first block,
 * whose inputs are the largest, reads them as two numbers each, and all else is rounded up or down at random, with
 * chances by which the mean is the float32 number (stochastic rounding: Gupta et al., ICML 2015, arXiv 1502.02551, §3).
 * The random numbers are the same in every call.
 *
 * Intel 64 and IA-32 Architectures Optimization Reference Manual, ch. 20 (tiles two by two, B in VNNI format).
 */
#define _GNU_SOURCE /* syscall */
#include <immintrin.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

enum {
    SIDE = 16,                        /* rows of a tile, and its columns of float32 */
    ROWS = 2 * SIDE,                  /* of a group */
    INNER = 32,                       /* bfloat16 numbers that a product of two tiles sums over */
    TILE = SIDE * INNER,              /* bfloat16 numbers of a tile */
    ACROSS = WIDTH / INNER,           /* steps over a row */
    TAP_STEPS = KERNEL * ACROSS,      /* steps over all taps */
    TAP_GROUPS = WIDTH / SIDE,        /* each has 16 columns of values and the gates of these */
    OUT_GROUPS = WIDTH / (2 * SIDE),  /* each has 32 columns */
    STRIP = 8 * ROWS,                 /* rows whose gated units are kept for the second product: 64 KB at width 128 */
    PIECE = 8 * STRIP,                /* rows that go through all blocks while they are in the second cache */
};

typedef uint16_t bf16;

/* Weights as tiles, in the order of their use: amx.py packs them. `stream` [reach·batch + rows + ROWS, WIDTH]: the
 * block's rounded inputs behind those of its state, and room that is read but not used. `rest`, of the first block
 * alone: what rounding took from them. */
struct block {
    const bf16 *taps;
    const float *taps_bias; /* [TAP_GROUPS][values, gates][16] */
    const bf16 *out;
    const float *out_bias; /* [WIDTH] */
    bf16 *stream, *rest;
    int64_t dilation;
};

struct config {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

/* Where a group's result goes: columns of `rows` rows. */
struct target {
    bf16 *gated; /* or */
    float *sum;
    bf16 *rounded; /* 0: of the last block's sum nothing is */
    int rows;
};

/* Sixteen generators of 32 bits (xorshift: Marsaglia, Journal of Statistical Software 8(14), 2003). */
INLINE __m512i random_bits(__m512i *state) {
    __m512i x = *state;
    x = _mm512_xor_si512(x, _mm512_slli_epi32(x, 13));
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 17));
    return *state = _mm512_xor_si512(x, _mm512_slli_epi32(x, 5));
}

/* To bfloat16, each up with the chance that its lower half says. */
INLINE __m256i one_rounded_at_random(__m512 numbers, __m512i *state) {
    const __m512i bits = _mm512_srli_epi32(random_bits(state), 16);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(_mm512_castps_si512(numbers), bits), 16));
}

/* The same of 32 numbers. */
INLINE __m512i rounded_at_random(__m512 low, __m512 high, __m512i *state) {
    const __m512i bits = random_bits(state);
    const __m512i upper = _mm512_set_epi16(
        63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33,
        31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    __m512i l = _mm512_add_epi32(_mm512_castps_si512(low), _mm512_and_si512(bits, _mm512_set1_epi32(0xFFFF)));
    __m512i h = _mm512_add_epi32(_mm512_castps_si512(high), _mm512_srli_epi32(bits, 16));
    return _mm512_permutex2var_epi16(l, upper, h);
}

/* Linux gives tiles to those that ask (arch_prctl's ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). */
EXPORT int permitted(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* tanh(v)·σ(g) as gate.py has it, with a reciprocal of 14 bits: its result is rounded to bfloat16's 8. */
INLINE __m512 gated(__m512 v, __m512 g) {
    const __m512 limit = _mm512_set1_ps(5), below = _mm512_set1_ps(-5);
    const __m512 a0 = _mm512_set1_ps(135135), n1 = _mm512_set1_ps(17325), n2 = _mm512_set1_ps(378);
    const __m512 d1 = _mm512_set1_ps(62370), d2 = _mm512_set1_ps(3150), d3 = _mm512_set1_ps(28);
    /* min and max give their second operand where one is not a number */
    __m512 x = _mm512_max_ps(below, _mm512_min_ps(limit, _mm512_mul_ps(v, _mm512_set1_ps(.5f))));
    __m512 y = _mm512_max_ps(below, _mm512_min_ps(limit, _mm512_mul_ps(g, _mm512_set1_ps(.25f))));
    __m512 xx = _mm512_mul_ps(x, x), yy = _mm512_mul_ps(y, y);
#define NUMERATOR(x, xx) \
    _mm512_mul_ps(x, _mm512_fmadd_ps(xx, _mm512_fmadd_ps(xx, _mm512_add_ps(xx, n2), n1), a0))
#define DENOMINATOR(xx) _mm512_fmadd_ps(xx, _mm512_fmadd_ps(xx, _mm512_fmadd_ps(xx, d3, d2), d1), a0)
    __m512 xn = NUMERATOR(x, xx), xd = DENOMINATOR(xx), yn = NUMERATOR(y, yy), yd = DENOMINATOR(yy);
    __m512 both = _mm512_add_ps(yd, yn);
    __m512 above = _mm512_mul_ps(_mm512_mul_ps(xn, xd), _mm512_mul_ps(both, both));
    __m512 under = _mm512_mul_ps(_mm512_fmadd_ps(xn, xn, _mm512_mul_ps(xd, xd)),
                                 _mm512_fmadd_ps(yn, yn, _mm512_mul_ps(yd, yd)));
    return _mm512_mul_ps(above, _mm512_rcp14_ps(under));
}

/* Row `row` of a group's result; its tiles are [rows 0-15, 16-31][columns 0-15, 16-31]. */
INLINE void finish_row(const float *result, const struct target *to, int row, __m512i *random) {
    const float *here = result + (row / SIDE) * 2 * SIDE * SIDE + (row % SIDE) * SIDE;
    __m512 low = _mm512_load_ps(here), high = _mm512_load_ps(here + SIDE * SIDE);
    if (to->gated) {
        _mm256_storeu_si256((__m256i *)(to->gated + row * WIDTH), one_rounded_at_random(gated(low, high), random));
    } else if (row < to->rows) {
        float *sum = to->sum + (int64_t)row * WIDTH;
        low = _mm512_add_ps(_mm512_loadu_ps(sum), low), high = _mm512_add_ps(_mm512_loadu_ps(sum + SIDE), high);
        _mm512_storeu_ps(sum, low), _mm512_storeu_ps(sum + SIDE, high);
        if (to->rounded)
            _mm512_storeu_si512(to->rounded + (int64_t)row * WIDTH, rounded_at_random(low, high, random));
    }
}

/* Rows of the group before, between the products of this one: those of `step` of `steps`. */
INLINE void finish_rows(const float *result, const struct target *to, int step, int steps, __m512i *random) {
    for (int row = step * ROWS / steps; row < (step + 1) * ROWS / steps; row++) finish_row(result, to, row, random);
}

/* `result` = bias + Σ over `taps` of ROWS rows from `a` + tap·`shift` on, and from `rest` on where that is not 0, times
 * the tiles from `b` on; `before` and `to`: what is left of the last group. B is streamed past the first cache, which A
 * then stays in. */
INLINE void group(const bf16 *a, const bf16 *rest, int64_t shift, int taps, const bf16 *b, const float *bias,
                  float *result, const float *before, const struct target *to, __m512i *random) {
    _tile_loadd(0, bias, 0);
    _tile_loadd(1, bias + SIDE, 0);
    _tile_loadd(2, bias, 0);
    _tile_loadd(3, bias + SIDE, 0);
    for (int tap = 0, step = 0; tap < taps; tap++) {
        for (int across = 0; across < ACROSS; across++, step++, b += 2 * TILE) {
            const int64_t here = tap * shift + across * INNER, below = here + SIDE * WIDTH;
            _tile_loadd(4, a + here, WIDTH * sizeof(bf16));
            _tile_stream_loadd(6, b, INNER * sizeof(bf16));
            _tile_dpbf16ps(0, 4, 6);
            _tile_stream_loadd(7, b + TILE, INNER * sizeof(bf16));
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + below, WIDTH * sizeof(bf16));
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
            if (rest) {
                _tile_loadd(4, rest + here, WIDTH * sizeof(bf16));
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, rest + below, WIDTH * sizeof(bf16));
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            if (before) finish_rows(before, to, step, taps * ACROSS, random);
        }
    }
    _tile_stored(0, result, SIDE * sizeof(float));
    _tile_stored(1, result + SIDE * SIDE, SIDE * sizeof(float));
    _tile_stored(2, result + 2 * SIDE * SIDE, SIDE * sizeof(float));
    _tile_stored(3, result + 3 * SIDE * SIDE, SIDE * sizeof(float));
}

/* One block over `rows` ≤ STRIP rows: `in` are the oldest taps of the first one, `rest` as of `group`. */
INLINE void strip(const struct block *block, const bf16 *in, const bf16 *rest, int64_t batch, int rows, float *sum,
                  bf16 *next, __m512i *random) {
    _Alignas(64) float results[2][4 * SIDE * SIDE];
    _Alignas(64) bf16 gates[STRIP * WIDTH];
    const float *before = 0;
    struct target to = {0};
    int turn = 0;
    for (int row = 0; row < rows; row += ROWS) {
        for (int part = 0; part < TAP_GROUPS; part++, turn ^= 1) {
            const int64_t here = (int64_t)row * WIDTH;
            group(in + here, rest ? rest + here : 0, block->dilation * batch * WIDTH, KERNEL,
                  block->taps + (int64_t)part * TAP_STEPS * 2 * TILE, block->taps_bias + part * 2 * SIDE, results[turn],
                  before, &to, random);
            before = results[turn];
            to = (struct target){.gated = gates + here + part * SIDE};
        }
    }
    finish_rows(before, &to, 0, 1, random);
    before = 0;
    for (int row = 0; row < rows; row += ROWS) {
        for (int part = 0; part < OUT_GROUPS; part++, turn ^= 1) {
            const int64_t here = (int64_t)row * WIDTH + part * 2 * SIDE;
            group(gates + row * WIDTH, 0, 0, 1, block->out + part * ACROSS * 2 * TILE, block->out_bias + part * 2 * SIDE,
                  results[turn], before, &to, random);
            before = results[turn];
            to = (struct target){.sum = sum + here, .rounded = next ? next + here : 0, .rows = rows - row};
        }
    }
    finish_rows(before, &to, 0, 1, random);
}

/* The first block's inputs: rounded, and what that took from them. */
static void round_inputs(const float *sum, int64_t count, bf16 *stream, bf16 *rest) {
    for (int64_t at = 0; at < count; at += SIDE) {
        const __m512 whole = _mm512_loadu_ps(sum + at);
        const __m256i near = (__m256i)_mm512_cvtneps_pbh(whole);
        const __m512 wide = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(near), 16));
        _mm256_storeu_si256((__m256i *)(stream + at), near);
        _mm256_storeu_si256((__m256i *)(rest + at), (__m256i)_mm512_cvtneps_pbh(_mm512_sub_ps(whole, wide)));
    }
}

/* `sum` [steps·batch, WIDTH]: in, the first layer's results; out, with what all blocks add. Fills the streams. */
EXPORT void convolve(const struct block *blocks, int64_t count, int64_t steps, int64_t batch, float *sum) {
    struct config config = {.palette = 1}, theirs;
    for (int tile = 0; tile < 8; tile++) config.bytes[tile] = 64, config.rows[tile] = SIDE;
    const unsigned control = _mm_getcsr();
    _mm_setcsr(control | 0x8040); /* subnormal numbers are 0: a hundred cycles each otherwise */
    _tile_storeconfig(&theirs);
    _tile_loadconfig(&config);
    __m512i random = _mm512_mullo_epi32(
        _mm512_set_epi32(16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1), _mm512_set1_epi32(0x9E3779B9));
    for (int64_t begin = 0, rows = steps * batch; begin < rows; begin += PIECE) {
        const int64_t end = begin + PIECE < rows ? begin + PIECE : rows;
        const int64_t first = ((KERNEL - 1) * blocks->dilation * batch + begin) * WIDTH;
        round_inputs(sum + begin * WIDTH, (end - begin) * WIDTH, blocks->stream + first, blocks->rest + first);
        for (const struct block *block = blocks; block < blocks + count; block++) {
            const struct block *after = block + 1 < blocks + count ? block + 1 : 0;
            bf16 *next = after ? after->stream + (KERNEL - 1) * after->dilation * batch * WIDTH : 0;
            for (int64_t row = begin; row < end; row += STRIP) {
                const int some = (int)(end - row < STRIP ? end - row : STRIP);
                const int64_t at = row * WIDTH;
                if (block->rest)
                    strip(block, block->stream + at, block->rest + at, batch, some, sum + at, next ? next + at : 0,
                          &random);
                else
                    strip(block, block->stream + at, 0, batch, some, sum + at, next ? next + at : 0, &random);
            }
        }
    }
    if (theirs.palette)
        _tile_loadconfig(&theirs);
    else
        _tile_release();
    _mm_setcsr(control);
}
