#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
static uint64_t x=88172645463325252ULL; static uint64_t rnd(void){x^=x<<13;x^=x>>7;x^=x<<17;return x;}
struct e{uint32_t key,val;int32_t next;};
int main(int c,char**v){ uint32_t n=atoi(v[1]); int mod=atoi(v[2]); struct e*t=malloc(n*sizeof*t); uint32_t b=n|1; int32_t*h=malloc(b*4+4); for(uint32_t i=0;i<b;i++)h[i]=-1;
 for(uint32_t i=0;i<n;i++){t[i].key=rnd();t[i].val=i;uint32_t k=mod?t[i].key%b:(uint64_t)t[i].key*b>>32;t[i].next=h[k];h[k]=i;}
 long s=0; for(long r=0;r<100000000;r++){uint32_t key=rnd()&1?t[rnd()%n].key:rnd();uint32_t k=mod?key%b:(uint64_t)key*b>>32;for(int i=h[k];i>=0;i=t[i].next)if(t[i].key==key){s+=t[i].val;break;}}
 printf("%ld\n",s);}
