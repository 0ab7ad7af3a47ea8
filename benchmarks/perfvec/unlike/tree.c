#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
static uint64_t x=88172645463325252ULL; static uint64_t rnd(void){x^=x<<13;x^=x>>7;x^=x<<17;return x;}
struct n{uint32_t k;struct n*l,*r;};
int main(int c,char**v){long n=atol(v[1]);struct n*root=0;for(long i=0;i<n;i++){struct n**p=&root;uint32_t k=rnd();while(*p)p=k<(*p)->k?&(*p)->l:&(*p)->r;*p=calloc(1,sizeof**p);(*p)->k=k;}
 long s=0;for(long r=0;r<100000000;r++){uint32_t k=rnd();struct n*p=root;while(p){s++;p=k<p->k?p->l:p->r;}}printf("%ld\n",s);}
