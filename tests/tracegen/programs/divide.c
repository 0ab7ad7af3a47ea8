/* Divisions of known quotients: every width, signed or not, by registers and memory; prints the quotients' bits. */
#include <stdint.h>
#include <stdio.h>

#define DIVIDE(type, wide, name, operation, suffix)                                                          \
    static type name(wide dividend, type divisor, int by_memory)                                                        \
    {                                                                                                                  \
        type quotient, rest = (type)(dividend >> (8 * sizeof(type) - 1) >> 1);                                          \
        volatile type kept = divisor;                                                                                  \
        if (by_memory) {                                                                                               \
            __asm__ volatile(operation suffix " %3" : "=a"(quotient), "+d"(rest) : "0"((type)dividend), "m"(kept) : "cc");  \
        } else {                                                                                                       \
            __asm__ volatile(operation suffix " %3" : "=a"(quotient), "+d"(rest) : "0"((type)dividend), "r"(divisor) : "cc"); \
        }                                                                                                              \
        return quotient;                                                                                               \
    }

DIVIDE(uint16_t, uint32_t, div16, "div", "w")
DIVIDE(uint32_t, uint64_t, div32, "div", "l")
DIVIDE(uint64_t, unsigned __int128, div64, "div", "q")
DIVIDE(int16_t, int32_t, idiv16, "idiv", "w")
DIVIDE(int32_t, int64_t, idiv32, "idiv", "l")
DIVIDE(int64_t, __int128, idiv64, "idiv", "q")

static uint8_t div8(uint16_t dividend, uint8_t divisor, int by_memory)
{
    volatile uint8_t kept = divisor;
    if (by_memory) {
        __asm__ volatile("divb %1" : "+a"(dividend) : "m"(kept) : "cc");
    } else {
        __asm__ volatile("divb %1" : "+a"(dividend) : "q"(divisor) : "cc");
    }
    return (uint8_t)dividend;
}

static int8_t idiv8(int16_t dividend, int8_t divisor, int by_memory)
{
    volatile int8_t kept = divisor;
    if (by_memory) {
        __asm__ volatile("idivb %1" : "+a"(dividend) : "m"(kept) : "cc");
    } else {
        __asm__ volatile("idivb %1" : "+a"(dividend) : "q"(divisor) : "cc");
    }
    return (int8_t)dividend;
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

int main(void)
{
    for (int i = 0; i < 400; i++) {
        int m = i & 1;
        uint64_t quotient = draw() >> (draw() & 63), divisor = (draw() >> (draw() & 63)) | 1;
        int64_t positive = (int64_t)(quotient >> 1), by = (int64_t)(divisor >> 1) | 1;
        int64_t sign = draw() & 1 ? -1 : 1, other = draw() & 1 ? -1 : 1;
        printf("1 %x\n", div8((uint8_t)quotient * (uint8_t)divisor, (uint8_t)divisor, m));
        printf("2 %x\n", div16((uint32_t)(uint16_t)quotient * (uint16_t)divisor, (uint16_t)divisor, m));
        printf("4 %x\n", div32((uint64_t)(uint32_t)quotient * (uint32_t)divisor, (uint32_t)divisor, m));
        printf("8 %lx\n", div64((unsigned __int128)quotient * divisor, divisor, m));
        printf("-1 %d\n", idiv8((int16_t)(sign * other * (positive & 127) * (by & 127)), (int8_t)(other * (by & 127)), m));
        printf("-2 %d\n", idiv16((int32_t)(sign * other * (positive & 32767) * (by & 32767)), (int16_t)(other * (by & 32767)), m));
        printf("-4 %d\n", idiv32(sign * other * (positive & 2147483647) * (by & 2147483647), (int32_t)(other * (by & 2147483647)), m));
        printf("-8 %ld\n", idiv64((__int128)(sign * other * positive) * by, other * by, m));
    }
}
