/* Which address an instruction forms, which general registers it may write, and where it divides, prefetches or zeroes a
 * block: as much of x86-64's and AArch64's encodings as the plugin needs to take a register's value where it is exact.
 * What is not known here may write every register and accesses nothing for sure.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NO_REGISTER (-1)
#define ALL_REGISTERS 0xFFFFFFFFu

/* An address: base + (index, extended as told) << scale + displacement. */
struct operand {
    bool known;
    int8_t base, index; /* NO_REGISTER where there is none */
    uint8_t scale, extended_from; /* bits of the index that count: 64, or 32 */
    bool is_signed;
    int64_t displacement;
};

struct encoding {
    struct operand operand;
    uint32_t writes; /* registers that it may write, a bit each */
    bool accesses;   /* memory, for sure. What may do so or not may write every register, too. */
    bool tells;      /* it makes one access, at `operand`, and writes none of its registers before */
    bool prefetches; /* data, from `operand` */
    bool zeroes;     /* the block around `operand` */
    int64_t adds;    /* to the one register that it writes, and does nothing else; 0: something else */
    uint8_t divides; /* bytes of the quotient; 0: it does not */
    bool is_signed;  /* the quotient */
};

static inline uint64_t address_of(const struct operand *operand, const uint64_t *registers)
{
    uint64_t index = operand->index == NO_REGISTER ? 0 : registers[operand->index];
    if (operand->extended_from == 32) {
        index = operand->is_signed ? (uint64_t)(int64_t)(int32_t)index : (uint32_t)index;
    }
    uint64_t base = operand->base == NO_REGISTER ? 0 : registers[operand->base];
    return base + (index << operand->scale) + (uint64_t)operand->displacement;
}

static inline uint32_t registers_of(const struct operand *operand)
{
    return (operand->base == NO_REGISTER ? 0 : 1u << operand->base) |
           (operand->index == NO_REGISTER ? 0 : 1u << operand->index);
}

/* ---- x86-64: Intel's manual, volume 2, chapter 2 and appendix A ---- */

enum { RAX, RCX, RDX, RSP = 4 };

struct x86 {
    const uint8_t *code;
    size_t size, at;
    bool word, repeated, segment, short_address, vex;
    uint8_t rex, map, opcode; /* map: 0, 1 (0F), 2 (0F 38), 3 (0F 3A) */
    uint8_t mod, reg, rm;
    struct operand memory;
};

static inline uint8_t x86_next(struct x86 *x)
{
    return x->at < x->size ? x->code[x->at++] : 0;
}

static inline int64_t x86_signed(struct x86 *x, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value |= (uint64_t)x86_next(x) << (8 * i);
    }
    unsigned unused = 64 - 8 * (unsigned)bytes;
    return (int64_t)(value << unused) >> unused;
}

static inline void x86_prefixes(struct x86 *x)
{
    for (; x->at < x->size; x->at++) {
        uint8_t c = x->code[x->at];
        if (c == 0x66) {
            x->word = true;
        } else if (c == 0x67) {
            x->short_address = true;
        } else if (c == 0x64 || c == 0x65) {
            x->segment = true;
        } else if (c == 0xF2 || c == 0xF3) {
            x->repeated = true;
        } else if (c != 0x2E && c != 0x36 && c != 0x3E && c != 0x26 && c != 0xF0 && (c & 0xF0) != 0x40) {
            break;
        }
        x->rex = (c & 0xF0) == 0x40 ? c : 0; /* it counts only just before the opcode */
    }
}

static inline void x86_opcode(struct x86 *x)
{
    x->opcode = x86_next(x);
    if (x->opcode == 0xC5 || x->opcode == 0xC4 || x->opcode == 0x62) { /* VEX, EVEX: inverted R, X, B, a map */
        uint8_t kind = x->opcode, first = x86_next(x);
        x->vex = true;
        x->map = kind == 0xC5 ? 1 : first & 3;
        x->rex = (uint8_t)((first & 0x80 ? 0 : 4) | (kind == 0xC5 || first & 0x40 ? 0 : 2) |
                           (kind == 0xC5 || first & 0x20 ? 0 : 1));
        uint8_t last = kind == 0xC5 ? first : x86_next(x);
        x->repeated = (last & 3) >= 2;
        if (kind == 0x62) {
            x86_next(x);
        }
        x->opcode = x86_next(x);
    } else if (x->opcode == 0x0F) {
        x->map = 1;
        x->opcode = x86_next(x);
        if (x->opcode == 0x38 || x->opcode == 0x3A) {
            x->map = x->opcode == 0x38 ? 2 : 3;
            x->opcode = x86_next(x);
        }
    }
}

/* ModRM, SIB and displacement; an address relative to the program counter stays unknown without `behind`. */
static inline void x86_modrm(struct x86 *x, uint64_t behind)
{
    uint8_t modrm = x86_next(x);
    x->mod = modrm >> 6;
    x->reg = (modrm >> 3 & 7) | (x->rex & 4) << 1;
    x->rm = (modrm & 7) | (x->rex & 1) << 3;
    if (x->mod == 3) {
        return;
    }
    struct operand *o = &x->memory;
    *o = (struct operand){!x->segment && !x->short_address, (int8_t)x->rm, NO_REGISTER, 0, 64, false, 0};
    if ((modrm & 7) == 4) {
        uint8_t sib = x86_next(x);
        o->base = (int8_t)((sib & 7) | (x->rex & 1) << 3);
        o->index = (int8_t)((sib >> 3 & 7) | (x->rex & 2) << 2);
        o->scale = sib >> 6;
        if (o->index == 4) {
            o->index = NO_REGISTER;
            o->scale = 0;
        }
        if ((sib & 7) == 5 && x->mod == 0) {
            o->base = NO_REGISTER;
            o->displacement = x86_signed(x, 4);
        }
    } else if ((modrm & 7) == 5 && x->mod == 0) {
        o->base = NO_REGISTER;
        o->displacement = (int64_t)(behind + (uint64_t)x86_signed(x, 4));
    }
    if (x->mod == 1 || x->mod == 2) {
        o->displacement = x86_signed(x, x->mod == 1 ? 1 : 4);
    }
    if (x->vex && x->code[0] == 0x62) {
        o->known = false; /* its displacement is scaled */
    }
}

/* A bit for a register that is written; without REX, 4 to 7 of byte operations are the second bytes of 0 to 3. */
static inline uint32_t x86_bit(const struct x86 *x, uint8_t number, bool byte)
{
    return 1u << number | (byte && !x->rex && number >= 4 && number < 8 ? 1u << (number - 4) : 0);
}

/* Opcodes of one byte. */
static inline void x86_one_byte(struct x86 *x, struct encoding *e, uint64_t behind)
{
    uint8_t c = x->opcode, low = (c & 7) | (x->rex & 1) << 3;
    bool byte = !(c & 1);
    if ((c >= 0x70 && c < 0x80) || c == 0x90 || c == 0xA8 || c == 0xA9 || c == 0xE9 || c == 0xEB) {
        e->writes = x->rex & 1 && c == 0x90 ? 1u << RAX | 1u << 8 : 0;
    } else if ((c >= 0x50 && c < 0x60) || c == 0x68 || c == 0x6A) { /* push, pop */
        bool pops = c >= 0x58 && c < 0x60;
        e->writes = 1u << RSP | (pops ? 1u << low : 0);
        e->operand = (struct operand){!x->word, RSP, NO_REGISTER, 0, 64, false, pops ? 0 : -8};
        e->accesses = true;
        e->tells = e->operand.known && !(pops && low == RSP);
    } else if (c == 0xE8 || c == 0xC3) { /* call, ret */
        e->writes = 1u << RSP;
        e->operand = (struct operand){!x->word, RSP, NO_REGISTER, 0, 64, false, c == 0xE8 ? -8 : 0};
        e->accesses = true;
        e->tells = e->operand.known;
    } else if (c == 0x98 || c == 0x99) {
        e->writes = c == 0x98 ? 1u << RAX : 1u << RDX;
    } else if (c >= 0xB0 && c < 0xC0) {
        e->writes = x86_bit(x, low, c < 0xB8);
    } else if (c < 0x40 && (c & 7) >= 4 && (c & 7) < 6) {
        e->writes = c >> 3 == 7 ? 0 : 1u << RAX;
    } else if ((c < 0x40 && (c & 7) < 4) || c == 0x63 || c == 0x69 || c == 0x6B || (c >= 0x80 && c <= 0x8B && c != 0x82) ||
               c == 0x8D || c == 0xC0 || c == 0xC1 || c == 0xC6 || c == 0xC7 || (c >= 0xD0 && c < 0xD4) || c == 0xF6 ||
               c == 0xF7 || c == 0xFE || c == 0xFF) {
        x86_modrm(x, behind);
        uint8_t group = x->reg & 7;
        uint32_t rm = x->mod == 3 ? x86_bit(x, x->rm, byte) : 0, reg = x86_bit(x, x->reg, byte);
        if (c < 0x40) {
            e->writes = c >> 3 == 7 ? 0 : c & 2 ? reg : rm;
        } else if (c == 0x63 || c == 0x69 || c == 0x6B || c == 0x8A || c == 0x8B || c == 0x8D) {
            e->writes = c == 0x8A ? reg : 1u << x->reg;
        } else if (c >= 0x80 && c < 0x84) {
            e->writes = group == 7 ? 0 : c == 0x80 ? rm : x->mod == 3 ? 1u << x->rm : 0;
        } else if (c == 0x84 || c == 0x85) {
            e->writes = 0;
        } else if (c == 0x86 || c == 0x87) {
            e->writes = rm | reg;
        } else if (c == 0xF6 || c == 0xF7) {
            e->writes = group < 2 ? 0 : group < 4 ? rm : 1u << RAX | 1u << RDX;
            e->divides = group < 6 ? 0 : byte ? 1 : x->rex & 8 ? 8 : x->word ? 2 : 4;
            e->is_signed = group == 7;
        } else if (c == 0xFE || c == 0xFF) { /* inc, dec; call, push; jmp */
            e->writes = group < 2 ? rm : group == 4 ? 0 : group == 2 || group == 6 ? 1u << RSP : ALL_REGISTERS;
        } else if ((c == 0xC6 || c == 0xC7) && group) { /* a transaction begins (xbegin) or is given up (xabort) */
            e->writes = ALL_REGISTERS;
        } else {
            e->writes = rm;
        }
        e->operand = x->memory;
        e->accesses = (x->mod != 3 && c != 0x8D) || (c == 0xFF && (group == 2 || group == 6));
        e->tells = e->accesses && x->memory.known && registers_of(&x->memory) && (c == 0x8B || c == 0x89) &&
                   !(c == 0x8B && registers_of(&x->memory) & reg);
    }
}

/* Opcodes behind 0F, 0F 38 and 0F 3A, and those of VEX and EVEX. */
static inline void x86_more_bytes(struct x86 *x, struct encoding *e, uint64_t behind)
{
    uint8_t c = x->opcode;
    if (x->map == 1 && !x->vex && ((c >= 0x80 && c < 0x90) || (c >= 0xC8 && c < 0xD0))) {
        e->writes = c < 0x90 ? 0 : 1u << ((c & 7) | (x->rex & 1) << 3);
        return;
    }
    if (x->map == 1 && (c == 0x77 || c == 0x05 || c == 0x0B || c == 0x31 || c == 0xA2)) {
        e->writes = c == 0x77 ? 0 : ALL_REGISTERS;
        return;
    }
    x86_modrm(x, behind);
    bool in_register = x->mod == 3;
    uint32_t rm = in_register ? 1u << x->rm : 0, reg = 1u << x->reg;
    bool vector = (c >= 0x10 && c < 0x18) || (c >= 0x28 && c < 0x30) || (c >= 0x50 && c < 0x80) || c == 0xC2 ||
                  (c >= 0xC4 && c < 0xC7) || (c >= 0xD0 && c < 0xFF);
    if (x->map == 1 && vector) {
        bool to_general = c == 0x2C || c == 0x2D || c == 0x50 || c == 0x78 || c == 0x79 || c == 0xC5 || c == 0xD7;
        bool other = c == 0xF7 || (!x->vex && (c == 0x78 || c == 0x79)); /* maskmov, vmread */
        e->writes = other ? ALL_REGISTERS : to_general ? reg : c == 0x7E && !x->repeated ? rm : 0;
        e->accesses = !in_register;
    } else if (x->map == 1 && !x->vex) {
        bool nothing = c == 0x18 || c == 0x0D || c == 0x1E || c == 0x1F || c == 0xA3;
        if (nothing) {
            e->writes = 0;
        } else if ((c >= 0x40 && c < 0x50) || c == 0xAF || (c >= 0xB6 && c < 0xB9) || (c >= 0xBC && c < 0xC0)) {
            e->writes = reg;
        } else if (c >= 0x90 && c < 0xA0) {
            e->writes = in_register ? x86_bit(x, x->rm, true) : 0;
        } else if (c == 0xBA || c == 0xAB || c == 0xB3 || c == 0xBB || c == 0xA4 || c == 0xA5 || c == 0xAC || c == 0xAD) {
            e->writes = rm;
        }
        e->accesses = e->writes != ALL_REGISTERS && !in_register && !nothing;
        e->prefetches = !in_register && ((c == 0x18 && (x->reg & 7) < 4) || (c == 0x0D && (x->reg & 7) < 2));
    } else if (x->map == 2) { /* gathers, and what has a mask, load or store as that says */
        bool masked = (c >= 0x2C && c < 0x30) || c == 0x8C || c == 0x8E || (c >= 0x90 && c < 0x94);
        bool unsure = x->vex && (masked || c >= 0xF0), stores = c == 0xF1 && !in_register && !x->repeated; /* movbe */
        e->accesses = !in_register && !unsure;
        e->writes = unsure || c >= 0xF2 ? ALL_REGISTERS : c < 0xF0 || stores ? 0 : reg;
    } else if (x->map == 3) {
        e->accesses = !in_register;
        e->writes = c == 0xF0 ? reg : c >= 0x14 && c < 0x18 ? rm : c >= 0x60 && c < 0x64 ? ALL_REGISTERS : 0;
    }
    if (x->code[0] == 0x62 && !in_register) { /* its masks are in every map */
        e->writes = ALL_REGISTERS;
        e->accesses = false;
    }
    e->operand = x->memory;
}

static inline struct encoding x86_encoding(const uint8_t *code, size_t size, uint64_t address)
{
    struct encoding e = {.writes = ALL_REGISTERS};
    struct x86 x = {.code = code, .size = size};
    x86_prefixes(&x);
    x86_opcode(&x);
    if (x.map == 0 && !x.vex) {
        x86_one_byte(&x, &e, address + size);
    } else {
        x86_more_bytes(&x, &e, address + size);
    }
    if (x.segment || x.short_address) {
        e.operand.known = false;
        e.tells = false;
    }
    e.prefetches = e.prefetches && e.operand.known;
    return e;
}

/* gem5's steps (`IntDiv` micro-operations) for a quotient of so many bytes: div1, div2i, div2, and rounds of div2 until
 * one finds no bits left. Each div2 finds one set bit; one more shifts in what follows the last one
 * (src/arch/x86/isa/insts/general_purpose/arithmetic/multiply_and_divide.py, microops/regop.isa). */
static inline unsigned divide_steps(uint64_t quotient, unsigned bytes, bool is_signed)
{
    unsigned unused = 64 - 8 * bytes;
    quotient <<= unused;
    if (is_signed && quotient >> 63) {
        quotient = 0 - quotient;
    }
    quotient >>= unused;
    unsigned found = (unsigned)__builtin_popcountll(quotient) + !(quotient & 1);
    unsigned round = bytes == 1 ? 2 : 4;
    return 3 + (found > 2 ? (found - 2 + round - 1) / round : 1) * round;
}

/* ---- AArch64: Arm's manual, C4.1 ---- */

static inline int64_t arm_signed(uint32_t word, unsigned first, unsigned bits)
{
    return (int64_t)((uint64_t)word << (64 - first - bits)) >> (64 - bits);
}

/* [rn, rm], the index extended and shifted by the size of what is accessed. */
static inline struct operand arm_indexed(uint32_t word)
{
    uint8_t shift = word >> 12 & 1 ? (uint8_t)(word >> 30) : 0, from = word >> 13 & 1 ? 64 : 32;
    return (struct operand){word >> 14 & 1, word >> 5 & 31, word >> 16 & 31, shift, from, word >> 15 & 1, 0};
}

static inline struct encoding arm_encoding(const uint8_t *code, size_t size, uint64_t address)
{
    struct encoding e = {.writes = ALL_REGISTERS};
    uint32_t word;
    if (size < sizeof word) {
        return e;
    }
    memcpy(&word, code, sizeof word);
    int8_t rd = word & 31, rn = word >> 5 & 31, second = word >> 10 & 31;
    struct operand at = {true, rn, NO_REGISTER, 0, 64, false, 0};
    bool to_memory = (word & 0x0A000000) == 0x08000000;
    bool data = (word & 8) == 0; /* of prefetches: not of instructions */
    if ((word & 0xFFC00000) == 0xF9800000) { /* prfm [rn, #n] */
        at.displacement = (word >> 10 & 0xFFF) * 8;
    } else if ((word & 0xFFE00C00) == 0xF8800000) { /* prfum */
        at.displacement = arm_signed(word, 12, 9);
    } else if ((word & 0xFFE00C00) == 0xF8A00800) { /* prfm [rn, rm] */
        at = arm_indexed(word);
    } else if ((word & 0xFF000000) == 0xD8000000) { /* prfm literal */
        at.base = NO_REGISTER;
        at.displacement = (int64_t)(address + (uint64_t)(arm_signed(word, 5, 19) * 4));
    } else {
        data = false;
        if ((word & 0xFFFFFFE0) == 0xD50B7420 || (word & 0xFFFFFFE0) == 0xD50B7480) { /* dc zva, dc gzva */
            e.zeroes = at.known = rd != 31;
            at.base = rd;
            e.operand = at;
            e.writes = 0;
            return e;
        }
        if ((word & 0xBE000000) == 0x0C000000) { /* ld1 … st4 */
            e.writes = word >> 23 & 1 ? 1u << rn : 0;
            e.accesses = true;
        } else if ((word & 0x3B000000) == 0x18000000) { /* ldr literal */
            e.writes = 1u << rd;
            e.accesses = true;
        } else if (to_memory && word >> 29 & 1) { /* but exclusive ones and some more */
            bool pair = (word & 0x3A000000) == 0x28000000;
            bool moves_base = pair ? word >> 23 & 1 : (word & 0x3B000400) == 0x38000400;
            e.writes = 1u << rd | (pair ? 1u << second : 0) | (moves_base ? 1u << rn : 0);
            e.accesses = (word & 0x3B000000) == 0x39000000 || pair || (word & 0x3B200000) == 0x38000000 ||
                         (word & 0x3B200C00) == 0x38200800;
            e.writes = e.accesses ? e.writes : ALL_REGISTERS;
        } else if ((word & 0x7C000000) == 0x34000000 || (word & 0xFE000000) == 0x54000000) {
            e.writes = 0; /* a conditional branch */
        } else if ((word & 0x1C000000) == 0x10000000 || (word & 0x0A000000) == 0x0A000000) {
            e.writes = 1u << rd; /* data processing, of general and vector registers */
            if ((word & 0xBF800000) == 0x91000000 && rd == rn) { /* add, sub of a number */
                e.adds = (int64_t)(word >> 10 & 0xFFF) << (word >> 22 & 1 ? 12 : 0);
                e.adds = word >> 30 & 1 ? -e.adds : e.adds;
            }
        } else if (word == 0xD503201F) { /* nop */
            e.writes = 0;
        }
        bool indexed = (word & 0x3B200C00) == 0x38200800, vector = word >> 26 & 1;
        if (((word & 0x3B000000) == 0x39000000 || indexed) && !(vector && word >> 23 & 1)) { /* ldr, str, but of 16 bytes */
            at.displacement = (int64_t)(word >> 10 & 0xFFF) << (word >> 30);
            e.operand = indexed ? arm_indexed(word) : at;
            e.tells = e.operand.known && (vector || !(word >> 22 & 3) || !(registers_of(&e.operand) >> rd & 1));
        }
        return e;
    }
    e.writes = 0;
    e.operand = at;
    e.prefetches = data && at.known;
    return e;
}
