/* What a server does with the keys of one report, in one pass: walks the trees, converts their leaves,
 * adds the words to the sum. The same numbers, bit by bit, as `dpf.expand` has from NumPy, where the
 * formulas are. Built and loaded by native.py; needs AES and AVX2 of x86-64 and nothing else.
 */
#include <stdint.h>

#if !defined(__x86_64__)

int fedrap_supported(void) { return 0; }

#else

#include <immintrin.h>

#define HERE __attribute__((target("aes,avx2")))
#define INLINE HERE static inline __attribute__((always_inline))
#define MANY 8 /* blocks at a time: AES of one waits for itself, of eight it does not */
#define P 0x7FFFFFFFu
#define TAG_BLOCKS 2

int fedrap_supported(void) {
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx2");
}

INLINE __m128i next_key(__m128i key, __m128i assist) {
    assist = _mm_shuffle_epi32(assist, 0xFF);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, assist);
}

HERE static void key_schedule(const uint8_t *key, __m128i *keys) {
    keys[0] = _mm_loadu_si128((const __m128i *)key);
#define ROUND(i, rcon) keys[i] = next_key(keys[i - 1], _mm_aeskeygenassist_si128(keys[i - 1], rcon))
    ROUND(1, 0x01); ROUND(2, 0x02); ROUND(3, 0x04); ROUND(4, 0x08); ROUND(5, 0x10);
    ROUND(6, 0x20); ROUND(7, 0x40); ROUND(8, 0x80); ROUND(9, 0x1B); ROUND(10, 0x36);
#undef ROUND
}

/* AES of x, xor x; `count` is a constant at each call. */
INLINE void hash(const __m128i *keys, const __m128i *x, __m128i *out, int count) {
    for (int i = 0; i < count; i++) out[i] = _mm_xor_si128(x[i], keys[0]);
    for (int round = 1; round < 10; round++)
        for (int i = 0; i < count; i++) out[i] = _mm_aesenc_si128(out[i], keys[round]);
    for (int i = 0; i < count; i++)
        out[i] = _mm_xor_si128(_mm_aesenclast_si128(out[i], keys[10]), x[i]);
}

/* sigma(s) = hi || (hi ^ lo) of lo || hi; sigma(s ^ i) has i in its upper half. */
INLINE __m128i sigma(__m128i seed) {
    __m128i turned = _mm_shuffle_epi32(seed, 0x4E);
    return _mm_xor_si128(turned, _mm_unpackhi_epi64(_mm_setzero_si128(), seed));
}

/* Children of `count` nodes at `from` on, over them: their own places are read first. */
INLINE void grow(const __m128i *keys, __m128i *seeds, uint8_t *control, int64_t from, int count,
                 __m128i correction, const uint64_t *bits) {
    const __m128i low = _mm_set_epi64x(0, 1), one = _mm_set_epi64x(1, 0);
    __m128i x[MANY], made[MANY];
    uint8_t before[MANY / 2];
    for (int i = 0; i < count; i++) {
        x[2 * i] = sigma(_mm_loadu_si128(seeds + from + i));
        x[2 * i + 1] = _mm_xor_si128(x[2 * i], one);
        before[i] = control[from + i];
    }
    hash(keys, x, made, 2 * count);
    for (int i = 0; i < 2 * count; i++) {
        __m128i mask = _mm_set1_epi64x(-(int64_t)before[i / 2]);
        uint8_t bit = (uint8_t)_mm_cvtsi128_si64(made[i]) & 1;
        control[2 * from + i] = bit ^ (before[i / 2] & (uint8_t)bits[i % 2]);
        made[i] = _mm_andnot_si128(low, made[i]);
        _mm_storeu_si128(seeds + 2 * from + i, _mm_xor_si128(made[i], _mm_and_si128(mask, correction)));
    }
}

/* All positions of one slot: seeds and control bits, from the root at 0. */
HERE static void walk(const __m128i *keys, int64_t size, int64_t depth, const uint64_t *corrections,
                      const uint64_t *bits, __m128i *seeds, uint8_t *control) {
    int64_t nodes = 1;
    for (int64_t level = 0; level < depth; level++) {
        __m128i correction = _mm_loadu_si128((const __m128i *)(corrections + 2 * level));
        int64_t left = nodes, below = (int64_t)1 << (depth - 1 - level);
        for (; left >= MANY / 2; left -= MANY / 2)
            grow(keys, seeds, control, left - MANY / 2, MANY / 2, correction, bits + 2 * level);
        for (; left > 0; left--) grow(keys, seeds, control, left - 1, 1, correction, bits + 2 * level);
        nodes = (size + below - 1) / below; /* the others have no position */
    }
}

/* One leaf's words: added to the sum of its position and to its slot's columns. */
INLINE void add(int64_t width, uint32_t t, const uint32_t *restrict made, const uint32_t *restrict words,
                uint32_t *restrict into, uint64_t *restrict columns) {
    uint32_t mask = 0u - t;
    for (int64_t i = 0; i < width; i++) {
        uint32_t value = made[i] & P;
        value = value == P ? 0 : value;
        value += words[i] & mask;
        columns[i] += value;
        value = (value & P) + (value >> 31);
        value += into[i];
        into[i] = (value & P) + (value >> 31);
    }
}

/* Some slots. `seeds` has room for size + 1 blocks, `control` for as many bytes, `made` for the blocks of
 * a leaf and MANY more; tags (slots·size, 2, 2) and columns (slots, width) are written, `into` is added to. */
HERE void fedrap_expand(const uint8_t *extend, const uint8_t *convert, int64_t slots, int64_t size,
                        int64_t width, int64_t depth, int64_t server, const uint64_t *roots,
                        const uint64_t *corrections, const uint64_t *bits, const uint32_t *words,
                        const uint64_t *tag_corrections, uint32_t *into, uint64_t *columns,
                        uint64_t *tags, uint64_t *scratch, uint8_t *control) {
    __m128i grown[11], converted[11], *seeds = (__m128i *)scratch, *made = seeds + size + 1;
    int64_t blocks = (width + 3) / 4 + TAG_BLOCKS;
    key_schedule(extend, grown);
    key_schedule(convert, converted);
    for (int64_t slot = 0; slot < slots; slot++) {
        uint64_t *sums = columns + slot * width;
        _mm_storeu_si128(seeds, _mm_loadu_si128((const __m128i *)(roots + 2 * slot)));
        control[0] = (uint8_t)server;
        walk(grown, size, depth, corrections + 2 * depth * slot, bits + 2 * depth * slot, seeds, control);
        for (int64_t i = 0; i < width; i++) sums[i] = 0;
        for (int64_t at = 0; at < size; at++) {
            __m128i x[MANY], out[MANY], first = sigma(_mm_loadu_si128(seeds + at));
            for (int64_t block = 0; block < blocks; block += MANY) {
                for (int i = 0; i < MANY; i++) x[i] = _mm_xor_si128(first, _mm_set_epi64x(block + i, 0));
                hash(converted, x, out, MANY);
                for (int i = 0; i < MANY; i++) _mm_storeu_si128(made + block + i, out[i]);
            }
            add(width, control[at], (const uint32_t *)made, words + slot * width,
                into + (slot * size + at) * width, sums);
            __m128i mask = _mm_set1_epi64x(-(int64_t)control[at]);
            for (int i = 0; i < TAG_BLOCKS; i++) {
                __m128i correction = _mm_loadu_si128((const __m128i *)(tag_corrections + 4 * slot + 2 * i));
                __m128i tag = _mm_loadu_si128(made + blocks - TAG_BLOCKS + i);
                tag = _mm_xor_si128(tag, _mm_and_si128(mask, correction));
                _mm_storeu_si128((__m128i *)(tags + 4 * (slot * size + at) + 2 * i), tag);
            }
        }
    }
}

#endif
